"""What leaves the explorer: copies, exports, command lines that reproduce a view."""
