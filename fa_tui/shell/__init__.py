"""What the commands of the command line share: options, inputs, output, progress."""
