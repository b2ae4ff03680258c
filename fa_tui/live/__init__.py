"""Open folders and files as they change."""
