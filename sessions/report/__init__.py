"""What a session's numbers mean, in words and as JSON, HTML, Markdown and LaTeX."""
