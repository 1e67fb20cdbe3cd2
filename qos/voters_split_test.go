package qos

import "testing"

// Two incarnations of one worker live, in a ring of one to seven voters, and each voter hears one of them: in no split do both find a majority, and one of them does
// unless the voters are cut in halves.
func TestTwoIncarnationsNeverBothActInAnySplit(t *testing.T) {
	for n := 1; n <= MaxVoters; n++ {
		ids := workers(n)
		for split := range 1 << n {
			voters := make([]*Voter, n)
			for i, id := range ids {
				voters[i] = NewVoter(id, 1, 0, testConfirm)
				voters[i].Learn(1)
			}
			var tenures [2]*Tenure
			for i := range tenures {
				tenures[i] = NewTenure(ids[0], uint64(i+2), testConfirm)
				tenures[i].Learn(ringOf(t, 1, ids))
			}
			acted := [2]bool{}
			for now := int64(0); now < 4*testConfirm; now += testConfirm / 4 {
				for i, v := range voters {
					to := tenures[split>>i&1]
					if a, ok := v.Answer(now, to.Ask(now)); ok {
						to.Answered(now, a)
					}
				}
				place, both := ownedBy(tenures[0]), [2]bool{}
				for i, to := range tenures {
					both[i] = to.MayAct(now, place, 0)
					acted[i] = acted[i] || both[i]
				}
				if both[0] && both[1] {
					t.Fatalf("%d voters, split %0*b, at %d: both incarnations act", n, n, split, now)
				}
			}
			newer := 0
			for i := range n {
				newer += split >> i & 1
			}
			if want := [2]bool{2*(n-newer) > n, 2*newer > n}; acted != want {
				t.Errorf("%d voters, split %0*b: acted %v, want %v", n, n, split, acted, want)
			}
		}
	}
}
