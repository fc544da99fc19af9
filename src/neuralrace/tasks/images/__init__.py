"""Routed images: real images in many input and output domains."""

from neuralrace.images import Images, RoutedImages
from neuralrace.tasks.images.routed import routed_images

__all__ = ["Images", "RoutedImages", "routed_images"]
