"""What leaves and enters this machine: exports, imports, bundles."""
