"""The screens of the explorer, with their keys, help and CSS.

Composed of `widgets`; imported by the App.
"""
