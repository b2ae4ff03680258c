"""Measuring a network: torch from here down."""
