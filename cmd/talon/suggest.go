package main

import "strings"

// suggest says which setting an unknown name may have meant; spell writes a
// setting the way the unknown one was written.
func suggest(name string, spell func(setting) string) string {
	name = strings.ToLower(strings.ReplaceAll(name, "_", "-"))
	if len(name) > 64 {
		name = name[:64] // no setting is half as long
	}
	known := defaults()
	best, least := "", len(name)/3+2
	for _, s := range known.settings() {
		if d := distance(name, s.name); d < least {
			best, least = spell(s), d
		}
	}
	if best == "" {
		return "talon config lists those there are"
	}
	return "did you mean " + best + "?"
}

// distance is Levenshtein's: how many letters to insert, remove or replace.
func distance(a, b string) int {
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		diagonal := row[0]
		row[0] = i + 1
		for j := range len(b) {
			replaced := diagonal
			if a[i] != b[j] {
				replaced++
			}
			diagonal = row[j+1]
			row[j+1] = min(replaced, diagonal+1, row[j]+1)
		}
	}
	return row[len(b)]
}
