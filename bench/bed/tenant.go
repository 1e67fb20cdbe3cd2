package bed

import (
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"strings"
)

// Tenant is a tenant of a policy file that a scenario writes for talon.
type Tenant struct {
	ID     string
	Fields string // further fields in YAML's flow style, such as "weight: 2, max_inflight: 8"; may be empty
	secret string
}

// NewTenant gives the tenant a token of its own.
func NewTenant(id, fields string) Tenant { return Tenant{ID: id, Fields: fields, secret: rand.Text()} }

// Header is the line that makes a request the tenant's.
func (t Tenant) Header() string { return "Authorization: Bearer " + t.ID + "." + t.secret }

// token is the tenant's entry in a list of tokens.
func (t Tenant) token() string {
	sum := sha256.Sum256([]byte(t.secret))
	return fmt.Sprintf("{id: %s, sha256: %q}", t.ID, hex.EncodeToString(sum[:]))
}

// Policy is a policy file in which each of the tenants may read everything.
func Policy(tenants []Tenant) string {
	var b strings.Builder
	b.WriteString("tenants:\n")
	for _, t := range tenants {
		fmt.Fprintf(&b, "  - {id: %s, allow: [/], tokens: [%s]%s}\n", t.ID, t.token(), t.more())
	}
	return b.String()
}

// PolicyOfOne is a policy file in which all the tokens belong to one tenant, so that the server cannot tell the
// tenants apart: the ablation of everything that is done for each of them.
func PolicyOfOne(id, fields string, tenants []Tenant) string {
	tokens := make([]string, len(tenants))
	for i, t := range tenants {
		tokens[i] = t.token()
	}
	return fmt.Sprintf("tenants:\n  - {id: %s, allow: [/], tokens: [%s]%s}\n", id, strings.Join(tokens, ", "), Tenant{Fields: fields}.more())
}

func (t Tenant) more() string {
	if t.Fields == "" {
		return ""
	}
	return ", " + t.Fields
}
