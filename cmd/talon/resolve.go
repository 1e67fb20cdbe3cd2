package main

import (
	"fmt"
	"maps"
	"net"
	"slices"
	"strings"

	"github.com/knadh/koanf/providers/confmap"
	"github.com/knadh/koanf/v2"

	"github.com/talon-worker/talon/policy"
	"github.com/talon-worker/talon/sched"
)

// layer is what one kind of source says.
type layer struct {
	values *koanf.Koanf
	at     map[string]source // by setting
}

// newLayer: settings have no dots, and the delimiter is never one of a name.
func newLayer() layer {
	return layer{koanf.New("."), map[string]source{}}
}

func (l layer) load(p koanf.Provider) problems {
	if err := l.values.Load(p, nil); err != nil {
		return problems{err}
	}
	return nil
}

// call is how the process was started: all that its configuration is made of.
// It does not change; what the file says may.
type call struct {
	flags   map[string]string // those given, by setting
	environ []string
	file    string // empty: none
}

// effective is a configuration with the source of each of its values.
type effective struct {
	serveFlags
	from map[string]source
}

// resolve is read, and refuses what cannot work.
func (c call) resolve() (*effective, problems) {
	e, found := c.read()
	return e, append(found, e.refusals(len(found) == 0)...)
}

// read merges default < file < environment < flag. Every value that was
// written must be readable, also one that a stronger source hides.
func (c call) read() (*effective, problems) {
	file, found := newLayer(), problems(nil)
	if c.file != "" {
		file, found = readFile(c.file)
	}
	environ, more := readEnviron(c.environ)
	found = append(found, more...)
	flags, more := readFlags(c.flags)
	found = append(found, more...)

	e := &effective{defaults(), map[string]source{}}
	merged := koanf.New(".")
	for _, l := range []layer{file, environ, flags} {
		if err := merged.Merge(l.values); err != nil {
			found = append(found, err)
		}
		maps.Copy(e.from, l.at)
	}
	for _, s := range e.settings() {
		if !merged.Exists(s.name) {
			e.from[s.name] = source{kind: fromDefault}
		} else if err := s.value.Set(fmt.Sprint(merged.Get(s.name))); err != nil {
			found = append(found, problemAt(e.from[s.name], s.name, err))
		}
	}
	return e, found
}

func readFlags(given map[string]string) (l layer, found problems) {
	l = newLayer()
	scratch := defaults()
	values := map[string]any{}
	for _, s := range scratch.settings() {
		text, ok := given[s.name]
		if !ok {
			continue
		}
		at := source{kind: fromFlag}
		if err := s.value.Set(text); err != nil {
			found = append(found, problemAt(at, s.name, err))
			continue
		}
		values[s.name], l.at[s.name] = text, at
	}
	return l, append(found, l.load(confmap.Provider(values, ""))...)
}

// refusals lists the values that cannot stay, each by itself and then together.
// Where something could not be read (not all), nothing is said to be missing.
func (e *effective) refusals(all bool) (found problems) {
	for _, s := range e.settings() {
		if !all && e.from[s.name].kind == fromDefault {
			continue
		}
		if err := e.refuse(s); err != nil {
			found = append(found, problemAt(e.from[s.name], s.name, err))
		}
	}
	if name, err := e.limiterRefusal(); err != nil && (all || e.from[name].kind != fromDefault) {
		found = append(found, problemAt(e.from[name], name, err))
	}
	if name, err := e.clusterRefusal(); err != nil && len(found) == 0 {
		found = append(found, problemAt(e.from[name], name, err))
	}
	if e.tenantQueueTarget >= e.tenantQueueDeadline && len(found) == 0 {
		found = append(found, problemAt(e.from["tenant-queue-target"], "tenant-queue-target",
			fmt.Errorf("%v is not under tenant-queue-deadline, %v", e.tenantQueueTarget, e.tenantQueueDeadline)))
	}
	if e.samePort() {
		found = append(found, problemAt(e.from["admin"], "admin",
			fmt.Errorf("%s and %s of --listen (%s) are one port; give each its own", e.admin, e.listen, e.from["listen"].describe("listen"))))
	}
	return found
}

// limiterRefusal is what the limiter's settings, which only mean something together, break, and the one to name for it.
func (f *serveFlags) limiterRefusal() (name string, err error) {
	limits := f.limits()
	if err = limits.Validate(); err == nil {
		return "", nil
	}
	for _, about := range []struct{ words, name string }{
		{"snapshot TTL", "snapshot-ttl"}, {"reporter lease", "snapshot-ttl"}, {"advance", "advance"}, {"report thresholds", "report-iops"},
		{"bootstrap", "bootstrap"}, {"ring confirmation", "ring-confirm"},
	} {
		if strings.HasPrefix(err.Error(), about.words) {
			return about.name, err
		}
	}
	return "sync-interval", err
}

// samePort reports whether both ports certainly collide. Names are not looked
// up: what is left is found when the second one is bound.
func (f *serveFlags) samePort() bool {
	dataHost, dataPort, err1 := net.SplitHostPort(f.listen)
	adminHost, adminPort, err2 := net.SplitHostPort(f.admin)
	if err1 != nil || err2 != nil || dataPort != adminPort || dataPort == "0" {
		return false
	}
	return dataHost == adminHost || dataHost == "" || adminHost == ""
}

// warnings lists what works and is probably not meant.
func (e *effective) warnings(files uint64) (found []string) {
	for _, c := range []struct {
		name  string
		value size
		why   string
	}{
		{"copy-below", e.copyBelow, "a copied body is sent in one turn, whatever the chunk"},
		{"notsent-lowat", e.notSentLowat, "a slow reader holds up to that much in the kernel, more than a whole chunk"},
	} {
		if c.value > e.transferChunk {
			found = append(found, fmt.Sprintf("%s (%s) is more than transfer-chunk (%s): %s",
				c.name, policy.FormatSize(int64(c.value)), policy.FormatSize(int64(e.transferChunk)), c.why))
		}
	}
	if e.scheduler != schedulers[sched.Fair] {
		found = append(found, fmt.Sprintf("scheduler: %s protects no tenant from another; it is for measurements", e.scheduler))
	}
	if e.policy == "" && e.coordinator == "" {
		for _, s := range e.settings() {
			if (strings.HasPrefix(s.name, "tenant-") || slices.Contains(limiterSettings, s.name)) && e.from[s.name].kind != fromDefault {
				found = append(found, fmt.Sprintf("%s (%s) does nothing without a policy", s.name, e.from[s.name].describe(s.name)))
			}
		}
	}
	if short := filesShort(files, e.maxConnections, e.openFiles, ringCount(e.rings)); short != "" {
		found = append(found, short)
	}
	return found
}
