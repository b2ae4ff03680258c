"""The screens of the explorer, with their keys, help and CSS.

Put together from `widgets`; imported by the App.
"""
