"""Door to media in messages."""

from graphkit_prebuilt.media import (
    AudioContent,
    AudioFormat,
    AudioSource,
    DocumentContent,
    DocumentFormat,
    DocumentSource,
    ImageContent,
    ImageFormat,
    ImageSource,
    Location,
    S3Location,
    VideoContent,
    VideoFormat,
    VideoSource,
)

__all__ = [
    "AudioContent",
    "AudioFormat",
    "AudioSource",
    "DocumentContent",
    "DocumentFormat",
    "DocumentSource",
    "ImageContent",
    "ImageFormat",
    "ImageSource",
    "Location",
    "S3Location",
    "VideoContent",
    "VideoFormat",
    "VideoSource",
]
