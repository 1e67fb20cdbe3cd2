package admin

import (
	"errors"
	"fmt"
	"net/http"
	"strings"
)

// livez says whether the process should be restarted: a ring that no longer
// answers cannot be mended from inside. In a drain it stays 200: a restart would cut
// off responses, and the drain has a deadline of its own.
func (wk Worker) livez(w http.ResponseWriter, _ *http.Request) {
	if wk.Draining() {
		plain(w, http.StatusOK, "draining\n")
		return
	}
	if _, err := wk.Rings(); err != nil {
		plain(w, http.StatusServiceUnavailable, err.Error()+"\n")
		return
	}
	plain(w, http.StatusOK, "ok\n")
}

// readyz says whether to send requests here.
func (wk Worker) readyz(w http.ResponseWriter, r *http.Request) {
	checks := wk.readiness()
	code, failed := http.StatusOK, []string{}
	for _, c := range checks {
		if c.err != nil {
			code = http.StatusServiceUnavailable
			failed = append(failed, c.String())
		}
	}
	switch {
	case r.URL.Query().Has("verbose"):
		plain(w, code, lines(checks)+wk.configLine()+wk.policyLine())
	case code != http.StatusOK:
		plain(w, code, strings.Join(failed, ""))
	default:
		plain(w, code, "ok\n")
	}
}

// configLine begins with [!] where the file and what runs differ: somebody
// should look, and requests are served all the same.
func (wk Worker) configLine() string {
	if wk.ConfigStale == nil {
		return ""
	}
	if err := wk.ConfigStale(); err != nil {
		return fmt.Sprintf("[!] config: not read again, running as before: %v\n", err)
	}
	return check{name: "config"}.String()
}

// policyLine is the same for the policy.
func (wk Worker) policyLine() string {
	if wk.Policy == nil {
		return ""
	}
	p := wk.Policy()
	if p.Stale != "" {
		return fmt.Sprintf("[!] policy: number %d stays in force: %s\n", p.Number, p.Stale)
	}
	return fmt.Sprintf("[+] policy ok: number %d of %s\n", p.Number, p.File)
}

type check struct {
	name string
	err  error
}

// String is one line in the form that Kubernetes' own components print.
func (c check) String() string {
	if c.err != nil {
		return fmt.Sprintf("[-] %s: %v\n", c.name, c.err)
	}
	return fmt.Sprintf("[+] %s ok\n", c.name)
}

func lines(checks []check) string {
	var b strings.Builder
	for _, c := range checks {
		b.WriteString(c.String())
	}
	return b.String()
}

// readiness asks nobody in a drain: the answer is no.
func (wk Worker) readiness() []check {
	if wk.Draining() {
		return []check{{"serving", errors.New("draining, no new connections")}}
	}
	_, rings := wk.Rings()
	return []check{{"serving", nil}, {"rings", rings}, {"origin", wk.OriginReadable()}}
}
