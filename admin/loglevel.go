package admin

import (
	"fmt"
	"io"
	"net/http"
	"strings"
)

// maxLevel bounds the body: the longest level has five letters.
const maxLevel = 64

// setLogLevel takes PUT only. A page in an operator's browser can make it POST
// to this port without asking; PUT needs a preflight, which nobody answers.
func (wk Worker) setLogLevel(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxLevel))
	if err != nil {
		plain(w, http.StatusBadRequest, "the body is a level: debug, info, warn or error\n")
		return
	}
	level := strings.TrimSpace(string(body))
	was, err := wk.SetLogLevel(level)
	if err != nil {
		plain(w, http.StatusBadRequest, err.Error()+"\n")
		return
	}
	plain(w, http.StatusOK, fmt.Sprintf("log level %s, was %s; until the next SIGHUP or restart\n", strings.ToLower(level), was))
}
