// Package coordinator brings policies, tenants and membership to a worker, and changes of them to whoever keeps them: a file for
// one machine or one rack (File), an etcd cluster beyond it (Etcd). It knows nothing of a worker and serves no request.
//
// A policy is kept as records: one for the defaults, one for each class and one for each tenant, each a piece of the policy file's YAML
// (Book). Every change has the next generation, one number for all records, and each record carries the generation of its last change. A
// limit's generation is the highest of the records that it inherits from. So workers that see the same records, by whatever way they came to
// them, give the same limit the same number, and it never falls, not even for a tenant that was removed and comes back.
//
// What a worker is told is a State. It is compared when it is applied and never goes backwards, within a process or, by the copy of the last good
// one on disk, across a restart. A coordinator that cannot be reached changes nothing: the last good State stays in force and the
// ring freezes. One that is named and has never given a policy means closed.
//
// A worker that starts while etcd is away begins with what its state directory keeps (Resume): policy, ring, and an epoch that no earlier process of it had and
// that is below all which etcd will give (life). It enlists with that epoch when etcd answers. Without a policy or an epoch on disk it does not start: an
// epoch that was made up could be that of an earlier life, whose use would then be taken for this one's.
//
// The coordinator only proposes rings of owners. Whether one counts is settled between the workers (qos.Tenure).
package coordinator
