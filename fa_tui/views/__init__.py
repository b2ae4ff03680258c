"""What the screens show, as pure functions: names, cells, axes, filters, comparisons."""
