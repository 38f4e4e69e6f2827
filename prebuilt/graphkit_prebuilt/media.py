"""Pictures, documents, sounds and films inside messages, in the shapes of Bedrock's Converse API."""

from __future__ import annotations

from typing import Any, Literal, Required, TypedDict

DocumentFormat = Literal["pdf", "csv", "doc", "docx", "xls", "xlsx", "html", "txt", "md"]
ImageFormat = Literal["png", "jpeg", "gif", "webp"]
VideoFormat = Literal["flv", "mkv", "mov", "mpeg", "mpg", "mp4", "three_gp", "webm", "wmv"]
AudioFormat = Literal[
    "mp3", "opus", "wav", "aac", "flac", "mp4", "ogg", "mkv", "mka", "x-aac", "m4a", "mpeg", "mpga", "pcm", "webm"
]  # fmt: skip


class Location(TypedDict):
    """Where bytes lie that are not part of the message; `type` says how to read the rest."""

    type: str


class S3Location(Location, total=False):
    """An object in S3."""

    uri: Required[str]
    bucketOwner: str


SourceLocation = Location | S3Location


class DocumentSource(TypedDict, total=False):
    """The bytes of a document, or where they lie."""

    bytes: bytes
    location: SourceLocation


class DocumentContent(TypedDict, total=False):
    """A document."""

    format: DocumentFormat
    name: str
    source: DocumentSource
    citations: dict[str, Any] | None
    context: str | None


class ImageSource(TypedDict, total=False):
    """The bytes of a picture, or where they lie."""

    bytes: bytes
    location: SourceLocation


class ImageContent(TypedDict):
    """A picture."""

    format: ImageFormat
    source: ImageSource


class VideoSource(TypedDict, total=False):
    """The bytes of a film, or where they lie."""

    bytes: bytes
    location: SourceLocation


class VideoContent(TypedDict):
    """A film."""

    format: VideoFormat
    source: VideoSource


class AudioSource(TypedDict, total=False):
    """The bytes of a sound, or where they lie."""

    bytes: bytes
    location: SourceLocation


class AudioContent(TypedDict):
    """A sound."""

    format: AudioFormat
    source: AudioSource
