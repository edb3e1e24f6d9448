// SPDX-License-Identifier: Apache-2.0

package registryctl

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"

	"github.com/seed-141914ff/okara/internal/addr"
	"github.com/seed-141914ff/okara/internal/depot"
	"github.com/seed-141914ff/okara/oci/artifact"
	"github.com/seed-141914ff/okara/oci/artifact/evidence"
	"github.com/seed-141914ff/okara/operator/api/v1alpha1"
	"github.com/seed-141914ff/okara/operator/internal/verdict"
)

// writeVersions updates an entry's Versions: announces states, makes missing and deletes old ones,
// writes statuses. It returns what it found last.
func writeVersions(ctx context.Context, r *entries, e *entry, f *found) (*found, error) {
	have, err := listVersions(ctx, r, client.ObjectKeyFromObject(e))
	if err != nil {
		return nil, err
	}
	if v, ok := e.Object.(*v1alpha1.Version); ok {
		have = append(have, v)
	}
	failures := map[types.UID]error{}
	asked := false
	for _, v := range have {
		did, err := applyListing(ctx, r, e, f, v)
		asked = asked || did
		if err != nil {
			failures[v.UID] = err
		}
	}
	if asked {
		if f, err = r.findInRegistry(ctx, e, f.known); err != nil {
			return nil, err
		}
	}
	have, err = makeVersions(ctx, r, e, f, have)
	if err != nil {
		return nil, err
	}
	var first error
	for _, v := range have {
		if err := dropPassing(describeVersion(ctx, r, e, f, v, failures[v.UID])); err != nil && first == nil {
			first = err
		}
	}
	for _, err := range failures {
		if _, hopeless := asProblem(err); !hopeless && first == nil {
			first = err
		}
	}
	return f, first
}

func listVersions(ctx context.Context, r *entries, name types.NamespacedName) ([]*v1alpha1.Version, error) {
	var list v1alpha1.VersionList
	if err := r.List(ctx, &list, client.InNamespace(name.Namespace), client.MatchingFields{targetIndex: r.kind + "/" + name.Name}); err != nil {
		return nil, err
	}
	all := make([]*v1alpha1.Version, len(list.Items))
	for i := range list.Items {
		all[i] = &list.Items[i]
	}
	slices.SortFunc(all, func(a, b *v1alpha1.Version) int { return cmp.Compare(a.Name, b.Name) })
	return all, nil
}

// makeVersions creates a Version for each of the newest versions, and deletes those it
// created for older ones unless their spec.state is set. It returns the remaining ones.
func makeVersions(ctx context.Context, r *entries, e *entry, f *found, have []*v1alpha1.Version) ([]*v1alpha1.Version, error) {
	newest := slices.DeleteFunc(slices.Clone(f.all), func(s v1alpha1.VersionSummary) bool { return s.State == v1alpha1.StateWithdrawn })
	newest = newest[:min(intOrZero(e.run.VersionObjects), len(newest))]
	var stay []*v1alpha1.Version
	for _, v := range have {
		wanted := slices.ContainsFunc(newest, func(s v1alpha1.VersionSummary) bool { return s.Version == v.Spec.Version })
		own := isMade(v) && v.Labels[v1alpha1.LabelUID] == string(e.GetUID())
		if own && wanted {
			if err := labelVersion(ctx, r, e, v); err != nil {
				return nil, err
			}
		}
		if wanted || v.Spec.State != "" || !own {
			stay = append(stay, v)
		} else if err := r.Delete(ctx, v, client.Preconditions{UID: &v.UID}); client.IgnoreNotFound(err) != nil {
			return nil, err
		}
	}
	for _, s := range newest {
		if slices.ContainsFunc(stay, func(v *v1alpha1.Version) bool { return v.Spec.Version == s.Version }) {
			continue
		}
		v, err := makeVersion(ctx, r, e, s.Version)
		if err != nil {
			return nil, err
		}
		if v != nil {
			stay = append(stay, v)
		}
	}
	return stay, nil
}

// makeVersion creates one Version. It returns nil if the name is taken.
func makeVersion(ctx context.Context, r *entries, e *entry, version string) (*v1alpha1.Version, error) {
	v := &v1alpha1.Version{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: e.GetNamespace(), Name: objectName(strings.ToLower(e.kind), e.GetName(), version),
			Labels: e.versionLabels(),
		},
		Spec: v1alpha1.VersionSpec{Target: &v1alpha1.Target{Kind: e.kind, Name: e.GetName()}, Version: version},
	}
	if err := controllerutil.SetControllerReference(e.Object, v, r.Scheme()); err != nil {
		return nil, err
	}
	err := r.Create(ctx, v)
	if !apierrors.IsAlreadyExists(err) {
		return v, err
	}
	var there v1alpha1.Version
	if err := r.reader.Get(ctx, client.ObjectKeyFromObject(v), &there); err != nil {
		return nil, client.IgnoreNotFound(err)
	}
	if !isEntry(&there) && *there.Spec.Target == *v.Spec.Target && there.Spec.Version == version {
		return &there, nil // the cache did not have it yet
	}
	r.emitEntryEvent(e.Object, corev1.EventTypeWarning, v1alpha1.ReasonNameTaken, fmt.Sprintf("Version %s exists and is not okara's: delete or rename it", v.Name))
	return nil, nil
}

// versionLabels returns Versions' labels, with the entry's name if it fits.
func (e *entry) versionLabels() map[string]string {
	all := map[string]string{v1alpha1.LabelManaged: "", v1alpha1.LabelUID: string(e.GetUID())}
	name := v1alpha1.LabelModule
	if e.kind == kindProvider {
		name = v1alpha1.LabelProvider
	}
	if len(e.GetName()) <= validation.LabelValueMaxLength {
		all[name] = e.GetName()
	}
	return all
}

func labelVersion(ctx context.Context, r *entries, e *entry, v *v1alpha1.Version) error {
	before := v.DeepCopy()
	maps.Copy(v.Labels, e.versionLabels())
	if maps.Equal(v.Labels, before.Labels) || !v.DeletionTimestamp.IsZero() {
		return nil
	}
	return client.IgnoreNotFound(r.Patch(ctx, v, client.MergeFrom(before)))
}

// objectName joins parts to a name, with a hash if need be.
func objectName(parts ...string) string {
	const limit = 200
	text := strings.Join(parts, "-")
	name := strings.Map(func(c rune) rune {
		switch {
		case c >= 'a' && c <= 'z', c >= '0' && c <= '9', c == '-', c == '.':
			return c
		case c >= 'A' && c <= 'Z':
			return c + 'a' - 'A'
		}
		return '-'
	}, text)
	if name == text && len(name) <= limit {
		return name
	}
	sum := sha256.Sum256([]byte(text))
	return strings.TrimRight(name[:min(len(name), limit)], "-.") + "-" + hex.EncodeToString(sum[:4])
}

// applyListing gives a version its object's state, and reports a change.
func applyListing(ctx context.Context, r *entries, e *entry, f *found, v *v1alpha1.Version) (bool, error) {
	version, err := addr.ParseVersion(v.Spec.Version)
	if err != nil || v.Spec.State == "" || !v.DeletionTimestamp.IsZero() {
		return false, err
	}
	is := f.listing.Status(version)
	did := false
	for _, an := range neededAnnouncements(is, v.Spec) {
		an.Version = v.Spec.Version
		an.Actor = actorName(v)
		if _, _, err := r.Depot.Announce(ctx, e.item, an); err != nil {
			return did, fmt.Errorf("%s version %s: %w", an.Action, v.Spec.Version, err)
		}
		did = true
		r.emitEntryEvent(v, corev1.EventTypeNormal, v1alpha1.ReasonPublished, "the registry lists "+v.Spec.Version+" as "+string(v.Spec.State))
	}
	return did, nil
}

// neededAnnouncements returns the steps from the present status to the requested one.
func neededAnnouncements(is evidence.Status, want v1alpha1.VersionSpec) []depot.Announcement {
	var list []depot.Announcement
	say := func(action string) {
		an := depot.Announcement{Action: action, Declared: true}
		if action == evidence.ActionYank || action == evidence.ActionDeprecate {
			an.Message = want.Message
			an.Replacement = want.Replacement
		}
		list = append(list, an)
	}
	same := func(e *evidence.StatusEvent) bool {
		return e != nil && e.Message == want.Message && e.Replacement == want.Replacement
	}
	if want.State == v1alpha1.ListYanked {
		if !same(is.Yanked) {
			say(evidence.ActionYank)
		}
		return list
	}
	if is.Yanked != nil {
		say(evidence.ActionUnyank)
	}
	switch {
	case want.State == v1alpha1.ListDeprecated && !same(is.Deprecated):
		say(evidence.ActionDeprecate)
	case want.State == v1alpha1.ListActive && is.Deprecated != nil:
		say(evidence.ActionUndeprecate)
	}
	return list
}

// actorName names an object as the origin of a change in the registry.
func actorName(o client.Object) string {
	const limit = 128
	name := "kubernetes:" + o.GetNamespace() + "/" + o.GetName()
	return name[:min(len(name), limit)]
}

// describeVersion writes the status of a Version, if it changed.
func describeVersion(ctx context.Context, r *entries, e *entry, f *found, v *v1alpha1.Version, failed error) error {
	version, err := addr.ParseVersion(v.Spec.Version)
	if err != nil {
		return err
	}
	before := v.DeepCopy()
	s := f.summary(version)
	there := s.State != v1alpha1.StateUnknown && s.State != v1alpha1.StateWithdrawn && s.Digest != ""
	if there && (v.Status.Digest != s.Digest || scannedSince(&v.Status, f.known[s.Version].Scanned)) {
		if err := measureVersion(ctx, r, f, s.Digest, &v.Status); err != nil {
			return err
		}
	}
	rejected := ""
	if isHeld(s.State) {
		if rejected, err = rejectionOf(ctx, r, v, s.Digest); err != nil {
			return err
		}
	}
	if rejected != "" {
		s.State = v1alpha1.StateRejected
		f.setState(s)
	}
	v.Status.ObservedGeneration = v.Generation
	v.Status.State = s.State
	v.Status.Digest = s.Digest
	result := verdict.Verdict{State: verdict.Ready, Reason: v1alpha1.ReasonSynced, Message: "the registry has it"}
	switch {
	case failed != nil:
		result = verdictOf(failed)
	case s.State == v1alpha1.StateDrift:
		result = verdict.Verdict{State: verdict.Failing, Reason: v1alpha1.ReasonDrift, Message: f.known[s.Version].Reason}
	case rejected != "":
		result = verdict.Verdict{State: verdict.Stalled, Reason: v1alpha1.ReasonRejected, Message: rejected}
	case s.State == v1alpha1.StateWithdrawn:
		result.Message = "it was withdrawn and its tag removed" + f.listing.Status(version).Yanked.Because()
	case isHeld(s.State):
		result = verdict.Verdict{Reason: v1alpha1.ReasonHeld, Message: cmp.Or(f.known[s.Version].Reason, "it is on hold")}
	case s.State == v1alpha1.StateUnknown:
		result = verdict.Verdict{State: verdict.Failing, Reason: v1alpha1.ReasonTargetMissing, Message: fmt.Sprintf("%s %s has no such version", e.kind, e.GetName())}
		if v == e.Object {
			result.Reason = v1alpha1.ReasonFailed
			result.Message = "version not found at the origin"
		}
	}
	result.Say(r.events, v, &v.Status.Conditions)
	if v == e.Object || equality.Semantic.DeepEqual(before.Status, v.Status) {
		return nil // the status of an entry is written after the run
	}
	return r.Status().Patch(ctx, v, verdict.Since(before))
}

// measureVersion reads the content, size, platforms and scans of a version into its status.
func measureVersion(ctx context.Context, r *entries, f *found, digest string, s *v1alpha1.VersionStatus) error {
	if p, ok := f.fresh[digest]; ok {
		*s = v1alpha1.VersionStatus{RunStatus: s.RunStatus, State: s.State, Digest: s.Digest, ContentDigest: p.ContentDigest, SizeBytes: p.Size}
		return nil
	}
	m, err := f.listing.Repository.Fetch(ctx, digest)
	if err != nil {
		return err
	}
	if err := readScans(ctx, f.listing.Repository, m, s); err != nil {
		return err
	}
	s.ContentDigest = ""
	s.SizeBytes = 0
	s.Platforms = nil
	if module, err := artifact.ParseModule(m); err == nil {
		s.ContentDigest = string(module.ContentDigest)
		if module.Zip != nil {
			s.SizeBytes = module.Zip.Size
		}
		return nil
	}
	index, err := artifact.ParseProviderIndex(m)
	if err != nil {
		return err
	}
	for _, p := range index.Platforms {
		s.SizeBytes += p.Size
		if len(s.Platforms) < maxVersions {
			s.Platforms = append(s.Platforms, p.Platform.String())
		}
	}
	return nil
}

// deleteOrphans writes to the Versions of an entry that the entry does not exist.
func deleteOrphans(ctx context.Context, r *entries, name types.NamespacedName) error {
	have, err := listVersions(ctx, r, name)
	if err != nil {
		return err
	}
	for _, v := range have {
		if !v.DeletionTimestamp.IsZero() {
			continue
		}
		if err := dropPassing(verdict.Update(ctx, r.Client, v, func() {
			v.Status.ObservedGeneration = v.Generation
			verdict.Verdict{State: verdict.Stalled, Reason: v1alpha1.ReasonTargetMissing, Message: fmt.Sprintf("%s %s not found", r.kind, name.Name)}.
				Say(r.events, v, &v.Status.Conditions)
		})); err != nil {
			return err
		}
	}
	return nil
}
