// SPDX-License-Identifier: Apache-2.0

package instancectl

import (
	"context"
	"crypto/sha256"
	"encoding/json"

	apiextensions "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/seed-141914ff/okara/instances/lifecycle"
	"github.com/seed-141914ff/okara/operator/api/v1alpha1"
	"github.com/seed-141914ff/okara/operator/internal/records"
	"github.com/seed-141914ff/okara/operator/internal/verdict"
)

// kept is the content of a stored record: the fields of a status that cannot be recreated.
type kept struct {
	Record    *apiextensions.JSON           `json:"record"`
	Snapshots map[string]apiextensions.JSON `json:"snapshots,omitempty"`
	Handled   *v1alpha1.Handled             `json:"handled,omitempty"`
}

func recordOf(o *v1alpha1.Instance) records.Of {
	return records.Of{Plural: "instances", Key: client.ObjectKeyFromObject(o)}
}

// restoreStatuses restores lost statuses from records; what cannot be read is skipped.
func restoreStatuses(ctx context.Context, p *reconciliation) {
	readable := p.objects[:0]
	for _, o := range p.objects {
		o.Status.ID = p.c.idOf(&o)
		if o.Status.Record == nil && !p.c.saved[o.UID].none {
			if err := restoreStatus(ctx, p, &o); err != nil {
				p.unread[o.Status.ID] = o.UID
				reportRestore(ctx, p, &o, err)
				continue
			}
			p.c.saved[o.UID] = saved{none: !p.restored[o.UID]}
		}
		readable = append(readable, o)
	}
	p.objects = readable
}

func restoreStatus(ctx context.Context, p *reconciliation, o *v1alpha1.Instance) error {
	var k kept
	uid, err := p.c.records.Load(ctx, recordOf(o), &k)
	if err != nil || uid == "" {
		return err
	}
	had := o.DeepCopy()
	had.Status.UID = uid
	had.Status.ID = p.c.idOf(had)
	had.Status.Record = k.Record
	had.Status.Snapshots = k.Snapshots
	had.Status.Handled = k.Handled
	if r, _, err := recordIn(had); err != nil || r == nil || !ownedAs(p.c.Users, o, r) {
		return err
	}
	*o = *had
	p.restored[o.UID] = true
	return nil
}

// reportRestore writes to the status of an Instance that an error of its record stops it.
func reportRestore(ctx context.Context, p *reconciliation, o *v1alpha1.Instance, err error) {
	p.reportFailed(o.UID, o, err)
	why := verdict.Verdict{State: verdict.Failing, Reason: v1alpha1.ReasonFailed, Message: err.Error()}
	if ctx.Err() == nil && p.writeStuck(ctx, o, why) != nil {
		p.again = true // the Instance changed meanwhile
	}
}

// ownedAs reports whether an Instance has the owner in its record, or is being claimed: a
// new Instance of another owner under the same name must not get the old one's resources.
func ownedAs(users Users, o *v1alpha1.Instance, r *lifecycle.Record) bool {
	if r.Owner.ID == "" {
		return o.Spec.Owner != nil || isManaged(o)
	}
	is := users.owner(o)
	return is.Kind == r.Owner.Kind && is.Issuer == r.Owner.Issuer && is.ID == r.Owner.ID
}

// saved is the stored record of an Instance, as far as this process knows.
type saved struct {
	version string // resourceVersion of the Instance
	sum     [sha256.Size]byte
	none    bool // there is none
}

// keepRecords updates stored records from statuses, before what they name begins; ends need none.
func keepRecords(ctx context.Context, p *reconciliation) {
	there := map[types.UID]saved{}
	for i := range p.objects {
		o := &p.objects[i]
		had := p.c.saved[o.UID]
		if r := p.before.Records[o.Status.ID]; r != nil && r.Phase.Live() && had.version != o.ResourceVersion {
			now, err := keepRecord(ctx, p, o, had)
			if err != nil {
				p.unkept[o.Status.ID] = true
				reportRestore(ctx, p, o, err)
				continue
			}
			had = now
		}
		there[o.UID] = had
	}
	p.c.saved = there
}

func keepRecord(ctx context.Context, p *reconciliation, o *v1alpha1.Instance, had saved) (saved, error) {
	s := &o.Status
	k := kept{s.Record, s.Snapshots, s.Handled}
	b, err := json.Marshal(k)
	now := saved{version: o.ResourceVersion, sum: sha256.Sum256(b)}
	if err != nil || now.sum == had.sum {
		return now, err
	}
	return now, p.c.records.Save(ctx, recordOf(o), v1alpha1.UIDOf(o), k)
}
