// SPDX-License-Identifier: Apache-2.0

package registryctl

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/seed-141914ff/okara/internal/addr"
	"github.com/seed-141914ff/okara/operator/api/v1alpha1"
	"github.com/seed-141914ff/okara/operator/internal/fluxobj"
	"github.com/seed-141914ff/okara/operator/internal/verdict"
)

// ownAddresses returns the addresses a namespace may use by its name, each as KIND:GLOB.
func (o *Options) ownAddresses(namespace string) []string {
	if namespace == o.Namespace {
		return []string{addr.KindModule + ":**", addr.KindMirror + ":**", addr.KindProvider + ":**"}
	}
	return []string{addr.KindModule + ":" + namespace + "/**"}
}

// addresses adds to ownAddresses the addresses an administrator allowed by annotation.
func (o *Options) addresses(ns *metav1.PartialObjectMetadata) []string {
	list := o.ownAddresses(ns.Name)
	for rule := range strings.SplitSeq(ns.Annotations[v1alpha1.AnnotationAddresses], ",") {
		if rule = strings.TrimSpace(rule); rule != "" {
			list = append(list, rule)
		}
	}
	return list
}

func isPermitted(addresses []string, it addr.Item) bool {
	return slices.ContainsFunc(addresses, func(rule string) bool {
		kind, glob, _ := strings.Cut(rule, ":")
		return kind == it.Kind && addr.Match(glob, it.String())
	})
}

// takesOver reports whether a namespace takes an address over: an administrator named the address,
// or, for once, the owner's UID.
func (o *Options) takesOver(ns *metav1.PartialObjectMetadata, it addr.Item, owner string) bool {
	named := func(annotation string) []string {
		return strings.FieldsFunc(ns.Annotations[annotation], func(c rune) bool { return c == ',' || c == ' ' })
	}
	return ns.Name == o.Namespace || isPermitted(named(v1alpha1.AnnotationAddresses), it) || slices.Contains(named(v1alpha1.AnnotationTakeOver), owner)
}

// notAllowed returns the message that lists the addresses a namespace may use.
func notAllowed(namespace string, may []string) string {
	all := []string{fmt.Sprintf("namespace %s may use %s only: an administrator can set %s on it", namespace, strings.Join(may, ", "), v1alpha1.AnnotationAddresses)}
	for _, rule := range may {
		if kind, _, _ := strings.Cut(rule, ":"); !slices.Contains([]string{addr.KindModule, addr.KindMirror, addr.KindProvider}, kind) {
			all = append(all, rule+" there allows nothing: use module:, mirror: or provider:")
		}
	}
	return strings.Join(all, "; ")
}

// claimAddress checks that an entry holds its address. If not, the error is a *verdict.Problem.
func claimAddress(ctx context.Context, r *entries, e *entry) (*metav1.PartialObjectMetadata, error) {
	ns, err := fluxobj.Namespace(ctx, r.reader, e.GetNamespace())
	if err != nil {
		return nil, err
	}
	if may := r.addresses(ns); !isPermitted(may, e.item) {
		return nil, &verdict.Problem{Reason: v1alpha1.ReasonAddressNotAllowed, Message: notAllowed(ns.Name, may)}
	}
	holder, err := addressHolder(ctx, r, e)
	if err != nil {
		return nil, err
	}
	if holder != nil {
		return nil, &verdict.Problem{Reason: v1alpha1.ReasonAddressTaken, Message: fmt.Sprintf("%s belongs to %s", e.key, holder.describeEntry())}
	}
	return ns, nil
}

// addressHolder returns the object that holds the address instead, or nil: the oldest that may have
// it; if they may share it, only an older Version of the same namespace and version.
func addressHolder(ctx context.Context, r *entries, e *entry) (*entry, error) {
	others, err := sameAddress(ctx, r, e)
	if err != nil {
		return nil, err
	}
	others = slices.DeleteFunc(others, func(other *entry) bool { return compareAge(other, e) >= 0 })
	slices.SortFunc(others, func(a, b *entry) int { return compareAge(a, b) })
	for i, other := range others {
		theirs, err := fluxobj.Namespace(ctx, r.reader, other.GetNamespace())
		switch {
		case client.IgnoreNotFound(err) != nil:
			return nil, err
		case err != nil || !isPermitted(r.addresses(theirs), other.item):
			continue
		case !e.mayShareAddress(other):
			return other, nil
		}
		same := slices.IndexFunc(others[i:], func(o *entry) bool {
			return o.kind == kindVersion && o.GetNamespace() == e.GetNamespace() && !e.mayShareAddress(o)
		})
		if same >= 0 {
			return others[i+same], nil
		}
		return nil, nil
	}
	return nil, nil
}

func sameAddress(ctx context.Context, r *entries, e *entry) ([]*entry, error) {
	var all []*entry
	for _, list := range entryLists() {
		if err := r.List(ctx, list, client.MatchingFields{addressIndex: e.key}); err != nil {
			return nil, err
		}
		for _, o := range itemsOf(list) {
			if o.GetUID() != e.GetUID() {
				all = append(all, entryOf(o))
			}
		}
	}
	return all, nil
}

// compareAge orders objects by creation, then by UID.
func compareAge(a, b client.Object) int {
	ta := a.GetCreationTimestamp()
	tb := b.GetCreationTimestamp()
	return cmp.Or(ta.Compare(tb.Time), cmp.Compare(a.GetUID(), b.GetUID()))
}
