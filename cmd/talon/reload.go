package main

import (
	"log/slog"
	"strings"
)

// level is --log-level, which has been checked.
func (f *serveFlags) level() slog.Level {
	l, _ := parseLevel(f.logLevel)
	return l
}

// reload makes the configuration again from the same command line, the same
// environment and the file as it is now. All of it is good, or nothing changes.
// The policy is a file of its own, and good or not by itself.
func (w *worker) reload() {
	next, found := w.call.resolve()
	if len(found) > 0 {
		w.reread.Store(&found)
		w.log.Error("the configuration is wrong and was not read; all stays as it was", "problems", lines(found))
	} else {
		w.reread.Store(nil)
		w.log.Info("configuration read again", "file", w.call.file, "changed", w.adopt(next))
	}
	if w.tenancy != nil {
		open := w.conf.leftOpen()
		w.tenancy.reload(&open)
	}
}

func lines(found problems) []string {
	all := make([]string, len(found))
	for i, err := range found {
		all[i] = err.Error()
	}
	return all
}

// adopt takes over what can change in a running worker, names what cannot, and
// returns how many settings it has changed.
func (w *worker) adopt(next *effective) (changed int) {
	for _, now := range w.conf.settings() {
		wanted, _ := next.lookup(now.name)
		was, text := now.value.String(), wanted.value.String()
		if was == text {
			continue
		}
		from := next.from[now.name].describe(now.name)
		if !now.live {
			w.log.Warn("needs a restart", "setting", now.name, "running", was, "wanted", text, "source", from)
			continue
		}
		if err := now.value.Set(text); err != nil {
			w.log.Error("not changed", "setting", now.name, "error", err)
			continue
		}
		changed++
		w.log.Info("changed", "setting", now.name, "was", was, "now", text, "source", from)
	}
	// Also ends what PUT /api/v1/loglevel had changed for the time being.
	w.level.Set(w.conf.level())
	return changed
}

// stale is why the file of the last SIGHUP is not what runs, or nil.
func (w *worker) stale() error {
	if found := w.reread.Load(); found != nil {
		return found
	}
	return nil
}

// setLogLevel changes the level until the next SIGHUP or restart.
func (w *worker) setLogLevel(text string) (was string, err error) {
	l, err := parseLevel(text)
	if err != nil {
		return "", err
	}
	was = strings.ToLower(w.level.Level().String())
	w.level.Set(l)
	w.log.Warn("log level changed on the admin port", "was", was, "now", strings.ToLower(l.String()))
	return was, nil
}
