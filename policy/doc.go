// Package policy turns a policy file into values: who the tenants are, what they may read, and what they are limited to.
//
// The file is YAML, read strictly. An unknown field, one that is written twice, a value without its unit, a reference, and a zero are
// errors; [Parse] reports all of them at once, each with file and line. docs/policy.md, which is made from the table in field.go, lists
// every field.
//
// A field that a tenant leaves out is inherited from its class, else from the defaults, each by itself: a tenant may write its rate and
// inherit the burst. What none of the three writes is left open (zero in [Tenant], for the worker's own settings to fill) or, where a
// limit would be without it, an error. Nothing that is written means "none" by being zero: that is refused.
//
//	text --> Parse --> Set --> Versions.Next --> qos.Policy with generations
//	                    |
//	                    +----> Explain, Diff: the same for people
//
// Values in, values out: this package watches no file, reads no clock and knows no worker. Bounds: [MaxFile], [MaxTenants], and those of
// every field.
package policy
