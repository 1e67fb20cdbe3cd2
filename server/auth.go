package server

// TenantContext is a request's verified tenant. Its field is private and
// authenticate is the only function that sets it, so holding one that is not
// zero means that somebody was authenticated.
type TenantContext struct {
	id string
}

// authenticate decides who the request is. Without a policy no token is known:
// a request that shows credentials is refused rather than served as somebody
// else, and one without is the anonymous tenant, if there is one.
func (l *loop) authenticate(r *request) (TenantContext, fault) {
	if r.authorization != nil || l.cfg.AnonymousTenant == "" {
		return TenantContext{}, faultUnauthorized
	}
	return TenantContext{id: l.cfg.AnonymousTenant}, faultNone
}
