package main

import (
	"regexp"
	"slices"
	"strings"

	"github.com/knadh/koanf/providers/confmap"
)

const (
	envPrefix = "TALON_"
	envConfig = "TALON_CONFIG" // the file, where --config does not name one
)

// serviceLink matches what Kubernetes puts into every container of a namespace
// with a service called talon or talon-something (and Docker's old links), such
// as TALON_SERVICE_HOST and TALON_PORT_8080_TCP_ADDR. Nobody wrote them for us.
var serviceLink = regexp.MustCompile(`^TALON(_[A-Z0-9_]+)?_(SERVICE_HOST|SERVICE_PORT(_[A-Z0-9_]+)?|PORT|PORT_[0-9]+_(TCP|UDP|SCTP)(_(PROTO|PORT|ADDR))?)$`)

// readEnviron reads the settings of environ ("NAME=value"). A variable that is
// set and empty is an empty value. Any other TALON_ name is an error: a slip in
// a unit file would otherwise be a setting that silently is not set.
func readEnviron(environ []string) (l layer, found problems) {
	l = newLayer()
	scratch := defaults()
	rows := scratch.settings()
	values := map[string]any{}
	for _, entry := range environ {
		name, value, _ := strings.Cut(entry, "=")
		if !strings.HasPrefix(name, envPrefix) || name == envConfig {
			continue
		}
		i := slices.IndexFunc(rows, func(s setting) bool { return s.env() == name })
		if i < 0 {
			if !serviceLink.MatchString(name) {
				found = append(found, problemf("%s: unknown setting; %s", name, suggest(strings.TrimPrefix(name, envPrefix), setting.env)))
			}
			continue
		}
		s, at := rows[i], source{fromEnv, name}
		if err := s.value.Set(value); err != nil {
			found = append(found, problemAt(at, s.name, err))
			continue
		}
		values[s.name], l.at[s.name] = value, at
	}
	return l, append(found, l.load(confmap.Provider(values, ""))...)
}
