"""What several tests use: sessions, engines, processes and published data, made for them."""
