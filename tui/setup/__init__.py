"""What a person asks for before anything is registered: options, drafts, and the start of a worker."""
