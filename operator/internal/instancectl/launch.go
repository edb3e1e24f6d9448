// SPDX-License-Identifier: Apache-2.0

package instancectl

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/seed-141914ff/okara/instances/lifecycle"
	"github.com/seed-141914ff/okara/internal/addr"
	"github.com/seed-141914ff/okara/internal/text"
	"github.com/seed-141914ff/okara/operator/api/v1alpha1"
	"github.com/seed-141914ff/okara/operator/internal/verdict"
)

// create launches a template: a pool's free member, or an Instance.
func (s *Store) create(ctx context.Context, c lifecycle.Command, e lifecycle.Create) (lifecycle.Answer, error) {
	if e.Forced {
		return lifecycle.Answer{}, fmt.Errorf("%w: the limits of a template cannot be exceeded on a cluster: change the Template", errors.ErrUnsupported)
	}
	if answer, ok, err := s.findRepeated(ctx, c); ok || err != nil {
		return answer, err
	}
	asked := c
	asked.Key = ""
	asked.Seed = randomSeed()
	taken := map[string]bool{}
	for {
		d, objects, err := s.readAll(ctx)
		if err != nil {
			return lifecycle.Answer{}, err
		}
		for id := range taken { // claimed by another caller, even if the cache does not show that yet
			delete(d.Records, id)
		}
		_, _, answer, err := s.machine.Step(d, asked, s.now())
		if err != nil {
			return lifecycle.Answer{}, err
		}
		r := answer.Record
		if answer.Status == 200 { // the existing instance
			return answer, nil
		}
		member := objects[r.ID]
		if member == nil {
			return s.makeInstance(ctx, c, e, answer)
		}
		err = s.claim(ctx, c, e, member)
		if apierrors.IsConflict(err) || apierrors.IsNotFound(err) || apierrors.IsInvalid(err) {
			taken[r.ID] = true
			continue
		}
		return answer, writeFailure(r.ID, err)
	}
}

// claim gives a member of a pool an owner. Of several concurrent claims one wins.
func (s *Store) claim(ctx context.Context, c lifecycle.Command, e lifecycle.Create, member *v1alpha1.Instance) error {
	o := member.DeepCopy()
	o.Spec.Name = e.Name
	o.Spec.TTL = formatDuration(e.TTL)
	s.assign(o, c, e)
	if err := s.client.Patch(ctx, o, verdict.Exact(member)); err != nil {
		return err
	}
	s.overlay.rememberWrite(o)
	return nil
}

// assign records the owner of an Instance, and the request that created it.
func (s *Store) assign(o *v1alpha1.Instance, c lifecycle.Command, e lifecycle.Create) {
	o.Spec.Owner = &v1alpha1.Owner{Kind: text.Camel(e.Owner.Kind), Issuer: e.Owner.Issuer, ID: e.Owner.ID, Label: e.Owner.Label}
	o.Spec.CreatedBy = actorName(c.Actor)
	for name, value := range e.Claims {
		if o.Spec.Claims == nil {
			o.Spec.Claims = map[string]v1alpha1.ClaimValue{}
		}
		o.Spec.Claims[name] = v1alpha1.ClaimValue(value)
	}
	if asked := askedBy(c); asked != "" {
		if o.Annotations == nil {
			o.Annotations = map[string]string{}
		}
		o.Annotations[v1alpha1.AnnotationAsked] = asked
	}
}

// makeInstance makes an Instance, unless this request or one with its key did.
func (s *Store) makeInstance(ctx context.Context, c lifecycle.Command, e lifecycle.Create, answer lifecycle.Answer) (lifecycle.Answer, error) {
	id := answer.Record.ID
	if c.Key != "" {
		id = keyID(c, s.now())
	}
	o := &v1alpha1.Instance{
		ObjectMeta: metav1.ObjectMeta{Namespace: s.settings.Namespace, Name: id},
		Spec: v1alpha1.InstanceSpec{
			Template: e.Template.Name, Version: e.Source.Version, Name: e.Name, Parameters: toJSONValues(e.Parameters), TTL: formatDuration(e.TTL),
		},
	}
	s.assign(o, c, e)
	err := s.client.Create(ctx, o)
	if apierrors.IsAlreadyExists(err) {
		if answer, ok, err := s.findRepeated(ctx, c); ok || err != nil {
			return answer, err
		}
		return lifecycle.Answer{}, fmt.Errorf("%w: instance %s exists, but cannot be read yet", lifecycle.ErrNoLeader, id)
	}
	if err != nil {
		return lifecycle.Answer{}, writeFailure(id, err)
	}
	s.overlay.rememberWrite(o)
	if d, _, err := s.readAll(ctx); err == nil && d.Records[id] != nil {
		answer.Record = d.Records[id]
	}
	return answer, nil
}

// findRepeated returns what the same request created before, today or yesterday.
func (s *Store) findRepeated(ctx context.Context, c lifecycle.Command) (lifecycle.Answer, bool, error) {
	if c.Key == "" {
		return lifecycle.Answer{}, false, nil
	}
	d, objects, err := s.readAll(ctx)
	if err != nil {
		return lifecycle.Answer{}, false, err
	}
	had := objects[keyID(c, s.now().Add(-24*time.Hour))]
	if had == nil {
		had = objects[keyID(c, s.now())]
	}
	for _, o := range objects { // a member of a pool keeps the id that it had before
		if had == nil && o.Annotations[v1alpha1.AnnotationAsked] == askedBy(c) {
			had = o
		}
	}
	switch {
	case had == nil:
		return lifecycle.Answer{}, false, nil
	case had.Annotations[v1alpha1.AnnotationAsked] != askedBy(c):
		if _, digest, ok := strings.Cut(had.Annotations[v1alpha1.AnnotationAsked], "="); ok && digest != c.Digest && had.Spec.CreatedBy == actorName(c.Actor) {
			return lifecycle.Answer{}, true, lifecycle.ErrKeyReused
		}
	}
	r := d.Records[had.Status.ID]
	if r == nil {
		return lifecycle.Answer{}, true, fmt.Errorf("%w: instance %s cannot be read", lifecycle.ErrNoLeader, had.Name)
	}
	return lifecycle.Answer{Status: 200, Record: r, Repeat: true}, true, nil
}

// formatDuration is a length of time in the format of objects; "" for none.
func formatDuration(d time.Duration) v1alpha1.Duration {
	if d <= 0 {
		return ""
	}
	length := max(d.Round(time.Second), time.Second).String()
	for _, zero := range []string{"h0m", "m0s", "h0s"} {
		length = strings.Replace(length, zero, zero[:1], 1)
	}
	return v1alpha1.Duration(length)
}

// keyID is the id of what a request creates on a day of UTC: a repetition finds it.
func keyID(c lifecycle.Command, now time.Time) string {
	return makeID("okara instance\x00" + c.Caller + "\x00" + c.Key + "\x00" + now.UTC().Format(time.DateOnly))
}

// makeID is the ID that a text determines.
func makeID(text string) string {
	sum := sha256.Sum256([]byte(text))
	const all = addr.InstanceLetters + addr.InstanceDigits
	id := make([]byte, addr.InstanceLength)
	for i := range id {
		from := all
		if i == 0 {
			from = addr.InstanceLetters
		}
		id[i] = from[int(binary.BigEndian.Uint16(sum[2*i:]))%len(from)]
	}
	return string(id)
}
