"""What is on disk: the journal, session folders and the store, side files, requests to a worker."""
