package bed

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
)

// appendRun adds a run to DIR/YYYYMMDD-COMMIT-SCENARIO.txt and its figures as one line of JSON to the
// .jsonl beside it. Earlier runs stay as they are. It returns the name of the text file.
func appendRun(dir, scenario string, m Machine, text string, record any) (string, error) {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return "", err
	}
	base := filepath.Join(dir, strings.ReplaceAll(m.Time[:10], "-", "")+"-"+m.Commit+"-"+scenario)
	line, err := json.Marshal(record)
	if err != nil {
		return "", err
	}
	if err := appendFile(base+".txt", []byte(text+"\n")); err != nil {
		return "", err
	}
	return base + ".txt", appendFile(base+".jsonl", append(line, '\n'))
}

func appendFile(name string, b []byte) error {
	f, err := os.OpenFile(name, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o644)
	if err != nil {
		return err
	}
	_, err = f.Write(b)
	if cerr := f.Close(); err == nil {
		err = cerr
	}
	return err
}
