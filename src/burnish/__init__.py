"""Hosted supervised fine-tuning on hardware the user owns."""

__version__ = "0.1.0"
