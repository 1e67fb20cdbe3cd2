package server

import "testing"

func TestContentType(t *testing.T) {
	for _, c := range []struct{ key, want string }{
		{"index.html", "text/html; charset=utf-8"},
		{"a/b/INDEX.HTML", "text/html; charset=utf-8"},
		{"data/part-0.parquet", "application/vnd.apache.parquet"},
		{"model.safetensors", "application/octet-stream"},
		{"x.tar.gz", "application/gzip"},
		{"app.wasm", "application/wasm"},
		{"font.woff2", "font/woff2"},
		{"page.webmanifest", "application/manifest+json"},
		{".css", "text/css; charset=utf-8"},
		{"noext", defaultType},
		{"", defaultType},
		{"dot.", defaultType},
		{"dir.html/file", defaultType},
		{"x.unknown", defaultType},
		{"x.webmanifestation", defaultType},
		{"x.js\r\nX: y", defaultType},
	} {
		if got := contentType([]byte(c.key)); got != c.want {
			t.Errorf("contentType(%q) = %q, want %q", c.key, got, c.want)
		}
	}
}

// TestTypeTable holds the bounds that an objectHead is sized by.
func TestTypeTable(t *testing.T) {
	for ext, typ := range typeByExtension {
		if len(ext) > maxExtension || len(typ) > maxType {
			t.Errorf("%s: %s: longer than the bounds", ext, typ)
		}
		for _, c := range ext {
			if 'A' <= c && c <= 'Z' {
				t.Errorf("%s: is looked up in lower case", ext)
			}
		}
	}
}

func TestContentTypeAllocs(t *testing.T) {
	key := []byte("bucket/data/part-00017.PARQUET")
	if n := testing.AllocsPerRun(100, func() { contentType(key) }); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

func BenchmarkContentType(b *testing.B) {
	key := []byte("bucket/data/part-00017.parquet")
	defer reportCPU(b)()
	for b.Loop() {
		contentType(key)
	}
}
