package origin

import (
	"os"
	"testing"
	"time"
)

var (
	longAgo = time.Unix(1_000_000_000, 0)
	past    = time.Unix(1_100_000_000, 0)
)

func appendTo(t testing.TB, path, data string) { writeWith(t, path, os.O_APPEND, data) }

// overwrite changes the first bytes of a file in place.
func overwrite(t testing.TB, path, data string) { writeWith(t, path, 0, data) }

func writeWith(t testing.TB, path string, flag int, data string) {
	t.Helper()
	f, err := os.OpenFile(path, os.O_WRONLY|flag, 0)
	must(t, err)
	_, err = f.WriteString(data)
	must(t, err)
	must(t, f.Close())
}
