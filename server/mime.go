package server

import "bytes"

const (
	defaultType  = "application/octet-stream"
	maxExtension = 12 // bytes of the longest known extension
	maxType      = 80 // bytes of the longest value
)

// contentType returns the media type of an object by the extension of its
// key, in any case, and defaultType for the unknown. The table is our own and not the
// machine's, so that every worker says the same. Text is UTF-8.
func contentType(key []byte) string {
	name := key[bytes.LastIndexByte(key, '/')+1:]
	dot := bytes.LastIndexByte(name, '.')
	if dot < 0 || len(name)-dot-1 > maxExtension {
		return defaultType
	}
	var buf [maxExtension]byte
	ext := buf[:copy(buf[:], name[dot+1:])]
	for i, c := range ext {
		ext[i] = lowerByte(c)
	}
	if t, ok := typeByExtension[string(ext)]; ok {
		return t
	}
	return defaultType
}

var typeByExtension = map[string]string{
	"css":  "text/css; charset=utf-8",
	"csv":  "text/csv; charset=utf-8",
	"htm":  "text/html; charset=utf-8",
	"html": "text/html; charset=utf-8",
	"ics":  "text/calendar; charset=utf-8",
	"js":   "text/javascript; charset=utf-8",
	"log":  "text/plain; charset=utf-8",
	"md":   "text/markdown; charset=utf-8",
	"mjs":  "text/javascript; charset=utf-8",
	"tsv":  "text/tab-separated-values; charset=utf-8",
	"txt":  "text/plain; charset=utf-8",
	"vtt":  "text/vtt; charset=utf-8",
	"xml":  "text/xml; charset=utf-8",
	"yaml": "application/yaml",
	"yml":  "application/yaml",

	"geojson":     "application/geo+json",
	"json":        "application/json",
	"jsonl":       "application/jsonl",
	"map":         "application/json",
	"ndjson":      "application/x-ndjson",
	"toml":        "application/toml",
	"wasm":        "application/wasm",
	"webmanifest": "application/manifest+json",
	"pdf":         "application/pdf",
	"rtf":         "application/rtf",
	"doc":         "application/msword",
	"docx":        "application/vnd.openxmlformats-officedocument.wordprocessingml.document",
	"pptx":        "application/vnd.openxmlformats-officedocument.presentationml.presentation",
	"xlsx":        "application/vnd.openxmlformats-officedocument.spreadsheetml.sheet",
	"epub":        "application/epub+zip",

	"arrow":   "application/vnd.apache.arrow.file",
	"arrows":  "application/vnd.apache.arrow.stream",
	"avro":    "application/vnd.apache.avro",
	"feather": "application/vnd.apache.arrow.file",
	"orc":     "application/vnd.apache.orc",
	"parquet": "application/vnd.apache.parquet",
	"pb":      "application/x-protobuf",
	"sqlite":  "application/vnd.sqlite3",

	"bin":         defaultType,
	"ckpt":        defaultType,
	"gguf":        defaultType,
	"h5":          "application/x-hdf5",
	"hdf5":        "application/x-hdf5",
	"npy":         defaultType,
	"npz":         "application/zip",
	"onnx":        defaultType,
	"pt":          defaultType,
	"safetensors": defaultType,

	"7z":  "application/x-7z-compressed",
	"bz2": "application/x-bzip2",
	"deb": "application/vnd.debian.binary-package",
	"gz":  "application/gzip",
	"iso": "application/x-iso9660-image",
	"jar": "application/java-archive",
	"lz4": "application/x-lz4",
	"rpm": "application/x-rpm",
	"tar": "application/x-tar",
	"tgz": "application/gzip",
	"xz":  "application/x-xz",
	"zip": "application/zip",
	"zst": "application/zstd",

	"avif": "image/avif",
	"bmp":  "image/bmp",
	"gif":  "image/gif",
	"heic": "image/heic",
	"ico":  "image/x-icon",
	"jpeg": "image/jpeg",
	"jpg":  "image/jpeg",
	"png":  "image/png",
	"svg":  "image/svg+xml",
	"tif":  "image/tiff",
	"tiff": "image/tiff",
	"webp": "image/webp",

	"aac":  "audio/aac",
	"flac": "audio/flac",
	"m4a":  "audio/mp4",
	"mp3":  "audio/mpeg",
	"oga":  "audio/ogg",
	"ogg":  "audio/ogg",
	"opus": "audio/ogg",
	"wav":  "audio/wav",

	"avi":  "video/x-msvideo",
	"m3u8": "application/vnd.apple.mpegurl",
	"m4s":  "video/iso.segment",
	"mkv":  "video/matroska",
	"mov":  "video/quicktime",
	"mp4":  "video/mp4",
	"mpd":  "application/dash+xml",
	"mpeg": "video/mpeg",
	"ts":   "video/mp2t",
	"webm": "video/webm",

	"otf":   "font/otf",
	"ttf":   "font/ttf",
	"woff":  "font/woff",
	"woff2": "font/woff2",
}
