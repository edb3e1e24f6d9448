// SPDX-License-Identifier: Apache-2.0

package instancectl

import (
	"context"
	"fmt"

	"k8s.io/apimachinery/pkg/types"

	"github.com/seed-141914ff/okara/internal/addr"
	"github.com/seed-141914ff/okara/operator/api/v1alpha1"
	"github.com/seed-141914ff/okara/operator/internal/verdict"
)

// idOf is the ID of an Instance: its name, if that is an ID, in the namespace of Templates. Else
// the UID by which it is known determines it, so that nothing has to be written first.
func (s Settings) idOf(o *v1alpha1.Instance) string {
	if o.Namespace == s.Namespace && addr.CheckInstance(o.Name) == nil {
		return o.Name
	}
	return makeID("okara instance of\x00" + string(v1alpha1.UIDOf(o)))
}

// separateByID fills in IDs. Of objects with one ID, which can be chosen as a name, that with a
// record has it, and else the oldest; the others are returned apart. taken has IDs of more.
func (s Settings) separateByID(objects []v1alpha1.Instance, taken map[string]types.UID) (own []v1alpha1.Instance, byID map[string]*v1alpha1.Instance, others []v1alpha1.Instance) {
	holder := map[string]types.UID{}
	for _, recorded := range []bool{true, false} {
		for i := range objects {
			o := &objects[i]
			o.Status.ID = s.idOf(o)
			if _, is := holder[o.Status.ID]; !is && recorded == (o.Status.Record != nil) {
				holder[o.Status.ID] = o.UID
			}
		}
	}
	byID = make(map[string]*v1alpha1.Instance, len(objects))
	own = make([]v1alpha1.Instance, 0, len(objects)) // byID points into it
	for _, o := range objects {
		if by, is := taken[o.Status.ID]; holder[o.Status.ID] != o.UID || is && by != o.UID {
			others = append(others, o)
			continue
		}
		own = append(own, o)
		byID[o.Status.ID] = &own[len(own)-1]
	}
	return own, byID, others
}

// refuseTaken writes to Instances whose ID another has that they do not begin.
func (p *reconciliation) refuseTaken(ctx context.Context, others []v1alpha1.Instance) {
	for i := range others {
		o := &others[i]
		id := o.Status.ID
		o.Status.ID = ""
		p.writeKept(ctx, o.UID, o, func() (bool, error) {
			if o.DeletionTimestamp != nil && o.Status.Record == nil {
				return true, p.removeObject(ctx, o)
			}
			why := fmt.Sprintf("another Instance has the ID %s: delete this one, and create it under another name", id)
			return false, p.writeStuck(ctx, o, verdict.Verdict{State: verdict.Stalled, Reason: v1alpha1.ReasonInvalid, Message: why})
		})
	}
}
