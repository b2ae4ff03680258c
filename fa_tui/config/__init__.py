"""What the program remembers for a person: settings and presets."""
