package main

import (
	"crypto/sha256"
	"testing"

	"github.com/talon-worker/talon/policy"
)

// TestTokenFitsPolicy: the entry, put into a policy file as it is printed, lets in exactly the secret.
func TestTokenFitsPolicy(t *testing.T) {
	seen := map[string]bool{}
	for _, id := range []string{"s1", "42", "1e9", "null", "-", "0x10", "no"} {
		secret, entry := newSecret(id)
		set, err := policy.Parse("p.yaml", []byte("tenants:\n  - id: a\n    tokens:\n      "+entry+"\n"))
		if err != nil {
			t.Errorf("%s: %v", entry, err)
			continue
		}
		if got := set.Tenants[0].Tokens[0]; got.ID != id || got.SHA256 != sha256.Sum256([]byte(secret)) {
			t.Errorf("%s is read as %+v", entry, got)
		}
		if seen[secret] {
			t.Errorf("a secret came twice")
		}
		seen[secret] = true
	}
}
