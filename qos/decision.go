package qos

// Outcome is what a charge met.
type Outcome uint8

const (
	// Go: it is charged (or needs no charge); carry on. The zero value is not Go: a forgotten decision is a refusal.
	Go Outcome = iota + 1
	// Wait: nothing is charged. Ask again at Decision.Until, or when the limit's next View comes in force, whichever is first; give
	// up at the request's own deadline.
	Wait
	// Refuse: nothing is charged and waiting does not help.
	Refuse
)

// Reason says why a Decision is not a plain Go; the wire and the metrics show it.
type Reason uint8

const (
	Granted      Reason = iota
	Unlimited           // the policy is disabled or off: counted, not limited
	ShadowDenied        // would have been denied; the policy is in shadow mode, so it goes, and is not charged
	Exhausted           // the ceiling of a fresh view is reached
	StaleView           // no fresh view, and the allowance is used up
	NoPolicy            // unknown_policy: nothing is admitted under a policy that is not known
	TooLarge            // more than Policy.Largest in one charge: split it
	Banned              // Policy.OnLimit is Ban and the tenant is banned
	BadCharge           // negative amount
	LimitsFull          // the worker's table of limits is full: the limit has no cell of its own
	numReasons
)

var reasonNames = [...]string{
	Granted: "granted", Unlimited: "unlimited", ShadowDenied: "shadow_denied", Exhausted: "exhausted", StaleView: "stale_view",
	NoPolicy: "unknown_policy", TooLarge: "too_large", Banned: "banned", BadCharge: "bad_charge", LimitsFull: "limits_full",
}

func (r Reason) String() string {
	if int(r) < len(reasonNames) {
		return reasonNames[r]
	}
	return "reason(?)"
}

// Decision is the answer to one charge.
type Decision struct {
	Until   int64 // with Wait, and with Refuse as a hint for Retry-After: the earliest time, in ns of now, at which asking again may help
	Outcome Outcome
	Reason  Reason
	Soft    bool // the tenant is over its soft rate: listed, nothing else
	Close   bool // with Banned: close the connection (BanClose), else answer with the refusal
}

// Charged reports whether the charge was taken, so that what is not used of it is to be refunded.
func (d Decision) Charged() bool { return d.Outcome == Go && d.Reason != ShadowDenied }
