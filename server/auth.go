package server

import (
	"bytes"
	"crypto/rand"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/binary"
)

// TenantContext is a request's verified tenant. Its field is private and
// authenticate is the only function that sets it, so holding one that is not
// zero means that somebody was authenticated.
type TenantContext struct {
	t *tenant
}

// ID is the tenant's id, "" if nobody was authenticated.
func (c TenantContext) ID() string {
	if c.t == nil {
		return ""
	}
	return c.t.ID
}

// roster is a table of tenants in force: what a ring asks who somebody is. It is
// immutable, and replaced whole (Server.SetTenants).
type roster struct {
	version   uint64           // grows from roster to roster
	anonymous *tenant          // who comes without credentials, nil if nobody may
	grants    map[string]grant // by token id
	tenants   []*tenant
}

// tenant is one version of a tenant's settings, with the account that all its
// versions share.
type tenant struct {
	Tenant
	*account
	everything bool // Allow has "/"
}

// grant is what a token gives.
type grant struct {
	hash   [32]byte
	tenant *tenant
}

// decoy is compared with where a token is not known, so that both take as long.
// No secret has it.
var decoy = func() (h [32]byte) {
	rand.Read(h[:])
	return h
}()

// authenticate decides who a request is, from its Authorization header alone (nil:
// it has none), and makes the only TenantContexts there are. A request that shows
// credentials is never served as somebody else: a scheme that is not Bearer, or a
// token that is not known, is refused also where the anonymous would be served.
//
// It hashes once and compares once whatever the credential is. The hash is of at
// most maxSecret bytes (43: 0.1 us), so nothing is remembered from one request to
// the next.
func (r *roster) authenticate(authorization []byte) (TenantContext, fault) {
	if authorization == nil {
		if r.anonymous == nil {
			return TenantContext{}, faultUnauthorized
		}
		return TenantContext{r.anonymous}, faultNone
	}
	id, secret, ok := parseCredential(authorization)
	if !ok {
		return TenantContext{}, faultUnauthorized
	}
	g, known := r.grants[string(id)]
	if !known {
		g.hash = decoy
	}
	sum := sha256.Sum256(secret)
	if subtle.ConstantTimeCompare(sum[:], g.hash[:]) != 1 || !known {
		return TenantContext{}, faultUnauthorized
	}
	return TenantContext{g.tenant}, faultNone
}

// maxSecret bounds the secret of a token in bytes, and so what is hashed for
// whoever sends one.
const maxSecret = 128

// parseCredential reads "Bearer <token id>.<secret>" (RFC 6750 section 2.1). The
// scheme has no case (RFC 9110 section 11.1); one or more spaces follow it. The id ends
// at the first dot, and all behind it is the secret: 1 to maxSecret visible characters.
func parseCredential(b []byte) (id, secret []byte, ok bool) {
	const scheme = "bearer"
	if len(b) <= len(scheme) || !foldEqual(b[:len(scheme)], scheme) || b[len(scheme)] != ' ' {
		return nil, nil, false
	}
	b = b[len(scheme):]
	for len(b) > 0 && b[0] == ' ' {
		b = b[1:]
	}
	dot := bytes.IndexByte(b, '.')
	if dot < 1 || dot > maxTokenID || len(b)-dot-1 < 1 || len(b)-dot-1 > maxSecret || !visible(b) {
		return nil, nil, false
	}
	return b[:dot], b[dot+1:], true
}

// visible reports whether all bytes are visible ASCII characters ('!' to '~').
func visible(b []byte) bool {
	if len(b) < 8 {
		for _, c := range b {
			if c <= ' ' || c >= 0x7f {
				return false
			}
		}
		return true
	}
	var bad uint64
	for i := 0; i < len(b); i += 8 {
		w := binary.LittleEndian.Uint64(b[min(i, len(b)-8):])
		bad |= below(w, '!')&^w | above(w, '~') | w
	}
	return bad&laneHighs == 0
}

// allows reports whether the tenant may read the object of a key.
func (t *tenant) allows(key []byte) bool {
	if t.everything {
		return true
	}
	for _, prefix := range t.Allow {
		if prefix = prefix[1:]; len(key) >= len(prefix) && string(key[:len(prefix)]) == prefix {
			return true
		}
	}
	return false
}
