"""What the terminal can show, how it is coloured, and how few bytes reach it."""
