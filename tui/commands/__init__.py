"""The subcommands of `refeed-tui`, one noun a module; `tui.cli` imports each when it is called."""
