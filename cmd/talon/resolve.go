package main

import (
	"fmt"
	"net"
)

// call is how the process was started.
type call struct {
	flags map[string]string // those given, by setting
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

// read takes flag over default.
func (c call) read() (e *effective, found problems) {
	e = &effective{defaults(), map[string]source{}}
	for _, s := range e.settings() {
		text, ok := c.flags[s.name]
		if !ok {
			e.from[s.name] = source{kind: fromDefault}
			continue
		}
		was := s.value.String()
		e.from[s.name] = source{kind: fromFlag}
		if err := s.value.Set(text); err != nil {
			found = append(found, problemAt(e.from[s.name], s.name, err))
			e.from[s.name] = source{kind: fromDefault}
			_ = s.value.Set(was) // it printed it
		}
	}
	return e, found
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
	if e.samePort() {
		found = append(found, problemAt(e.from["admin"], "admin",
			fmt.Errorf("%s and %s of %s are one port; give each its own", e.admin, e.listen, e.from["listen"].subject("listen"))))
	}
	return found
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
				c.name, formatSize(int64(c.value)), formatSize(int64(e.transferChunk)), c.why))
		}
	}
	if short := filesShort(files, e.maxConnections, e.openFiles, ringCount(e.rings)); short != "" {
		found = append(found, short)
	}
	return found
}
