// SPDX-License-Identifier: Apache-2.0

package registryctl

import (
	"context"
	"fmt"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"

	"github.com/seed-141914ff/okara/internal/addr"
	"github.com/seed-141914ff/okara/internal/supply"
	"github.com/seed-141914ff/okara/internal/text"
	"github.com/seed-141914ff/okara/operator/api/v1alpha1"
	"github.com/seed-141914ff/okara/operator/internal/verdict"
)

// These are the kinds of entries.
const (
	kindModule   = "Module"
	kindProvider = "Provider"
	kindVersion  = "Version" // without a target
)

// versionInterval is how often a Version without a target is compared with its origin.
const versionInterval v1alpha1.Duration = "1h"

// entry is a Module, a Provider, or a Version without target.
type entry struct {
	client.Object
	kind   string
	spec   *v1alpha1.EntrySpec
	run    *v1alpha1.RunSpec
	status *v1alpha1.RunStatus
	list   *v1alpha1.EntryStatus // the status that contains status; nil for a Version

	item addr.Item  // its address in the registry
	key  string     // its key in a record
	set  supply.Set // holds this entry alone
	err  error      // why the object is not a valid entry

	namespace *metav1.PartialObjectMetadata // set when it holds its address
	ran       bool                          // a run began, at that time
	began     time.Time
}

func entryOf(o client.Object) *entry {
	switch o := o.(type) {
	case *v1alpha1.Module:
		e := &entry{Object: o, kind: kindModule, spec: &o.Spec.EntrySpec, run: &o.Spec.RunSpec, status: &o.Status.RunStatus, list: &o.Status}
		e.setModule(o.Spec.ModuleEntry)
		return e
	case *v1alpha1.Provider:
		e := &entry{Object: o, kind: kindProvider, spec: &o.Spec.EntrySpec, run: &o.Spec.RunSpec, status: &o.Status.RunStatus, list: &o.Status}
		e.setProvider(o.Spec.ProviderEntry)
		return e
	case *v1alpha1.Version:
		if isEntry(o) {
			return entryOfVersion(o)
		}
	}
	return &entry{Object: o, err: fmt.Errorf("%T is not an entry", o)}
}

// isEntry reports whether an object is an entry itself, and not a Version of one.
func isEntry(o client.Object) bool {
	v, ok := o.(*v1alpha1.Version)
	return !ok || v.Spec.Target == nil
}

// entryOfVersion makes an entry of one version, listed at the origin: its tag may differ.
func entryOfVersion(o *v1alpha1.Version) *entry {
	e := &entry{
		Object: o, kind: kindVersion, spec: &v1alpha1.EntrySpec{Versions: o.Spec.Version, Auth: o.Spec.Auth},
		run: &v1alpha1.RunSpec{Interval: new(versionInterval), DeletionPolicy: o.Spec.DeletionPolicy}, status: &o.Status.RunStatus,
	}
	if o.Spec.Source != "" {
		e.setModule(v1alpha1.ModuleEntry{Address: o.Spec.Address, Source: o.Spec.Source, Subdir: o.Spec.Subdir, TagPrefix: o.Spec.TagPrefix})
	} else {
		e.setProvider(v1alpha1.ProviderEntry{Address: o.Spec.Address, Platforms: o.Spec.Platforms})
	}
	return e
}

func (e *entry) setModule(s v1alpha1.ModuleEntry) {
	m, err := supply.ModuleSpec{
		EntrySpec: e.commonSpec(), Address: s.Address, Source: s.Source, Subdir: s.Subdir, TagPrefix: s.TagPrefix,
		Releases: s.Releases, Policy: text.Kebab(string(s.Policy)), Ignore: s.Ignore,
	}.Entry(e.describeEntry())
	e.item = m.Address.Item()
	e.key = m.Key()
	e.err = err
	e.set.Modules = []supply.ModuleEntry{m}
}

func (e *entry) setProvider(s v1alpha1.ProviderEntry) {
	p, err := supply.ProviderSpec{
		EntrySpec: e.commonSpec(), Address: s.Address, Origin: s.Origin, Platforms: s.Platforms, AllowUnsigned: s.AllowUnsigned,
	}.Entry(e.describeEntry())
	e.item = p.Address.Item()
	e.key = p.Key()
	e.err = err
	e.set.Providers = []supply.ProviderEntry{p}
}

func (e *entry) describeEntry() string { return e.kind + " " + e.GetNamespace() + "/" + e.GetName() }

// mayShareAddress reports whether both are Versions of one namespace with different versions.
func (e *entry) mayShareAddress(other *entry) bool {
	return e.kind == kindVersion && other.kind == kindVersion && e.GetNamespace() == other.GetNamespace() && e.spec.Versions != other.spec.Versions
}

func (e *entry) commonSpec() supply.EntrySpec {
	s := supply.EntrySpec{Versions: e.spec.Versions, Limit: intOrZero(e.spec.Limit), Keep: intOrZero(e.spec.Keep), Pin: e.spec.Pin}
	if a := e.spec.Approval; a != nil {
		s.Approval = supply.ApprovalPolicy{Required: a.Mode == v1alpha1.ApprovalVersion, Patch: a.Patch, SignedBy: a.SignedBy, OlderAge: a.OlderThan.Length()}
	}
	if p := e.spec.Scan; p != nil {
		s.Scan = supply.ScanPolicy{Block: text.Kebab(p.Block), MaxAge: p.MaxAge.Length(), SourceRepository: p.SourceRepository}
	}
	return s
}

// scanQueue is the queue name of entries that are scanned. No host has this name.
const scanQueue = "the scanner"

// queueName is the name of the entry's queue: its origin, or the scanner.
func (e *entry) queueName() string {
	if e.spec.Scan != nil {
		return scanQueue
	}
	return e.origin()
}

func (e *entry) scanWith(s Scanner) error {
	if e.spec.Scan == nil {
		return nil
	}
	if s.Command == "" {
		return &verdict.Problem{Reason: v1alpha1.ReasonScannerMissing, Message: "spec.scan: the operator has no scanner: an administrator can set one with --scanner"}
	}
	name := func(p *supply.ScanPolicy) {
		p.Scanner = s.Command
		p.Database = s.Database
	}
	for i := range e.set.Modules {
		name(&e.set.Modules[i].Scan)
	}
	for i := range e.set.Providers {
		name(&e.set.Providers[i].Scan)
	}
	return nil
}

func intOrZero(p *int32) int {
	if p == nil {
		return 0
	}
	return int(*p)
}

func (e *entry) origin() string {
	var from string
	switch {
	case len(e.set.Modules) > 0:
		from = e.set.Modules[0].From()
	case len(e.set.Providers) > 0:
		from = e.set.Providers[0].From()
	}
	if _, rest, ok := strings.Cut(from, "://"); ok {
		from = rest
	}
	host, _, _ := strings.Cut(from, "/")
	return host
}

// limitKey is the key of a rate limit: origins count per credential, else per operator.
func (e *entry) limitKey() string {
	if e.spec.Auth == nil {
		return e.origin()
	}
	return e.origin() + " " + e.GetNamespace() + "/" + e.spec.Auth.SecretRef.Name
}

// requestedRun is the value of the annotation by which a user requests a run.
func (e *entry) requestedRun() string { return verdict.RequestOf(e) }

func (e *entry) handledRun() string {
	return verdict.JoinRequests(e.status.LastHandledRequest, e.status.LastHandledReconcileAt)
}

const addressIndex = "okara.dev/address"

const targetIndex = "okara.dev/target"

func addressOf(o client.Object) []string {
	if !isEntry(o) {
		return nil
	}
	return []string{entryOf(o).key}
}

func targetOf(o client.Object) []string {
	v, ok := o.(*v1alpha1.Version)
	if !ok || isEntry(v) {
		return nil
	}
	return []string{v.Spec.Target.Kind + "/" + v.Spec.Target.Name}
}

func entryKinds() map[string]client.Object {
	return map[string]client.Object{kindModule: &v1alpha1.Module{}, kindProvider: &v1alpha1.Provider{}, kindVersion: &v1alpha1.Version{}}
}

func statusOf(o runtime.Object) any {
	switch o := o.(type) {
	case *v1alpha1.Module:
		return o.Status
	case *v1alpha1.Provider:
		return o.Status
	case *v1alpha1.Version:
		return o.Status
	}
	return nil
}

// entryLists returns an empty list for each kind of entry.
func entryLists() []client.ObjectList {
	return []client.ObjectList{&v1alpha1.ModuleList{}, &v1alpha1.ProviderList{}, &v1alpha1.VersionList{}}
}

func itemsOf(list client.ObjectList) (all []client.Object) {
	_ = meta.EachListItem(list, func(item runtime.Object) error {
		if o, is := item.(client.Object); is && isEntry(o) {
			all = append(all, o)
		}
		return nil
	})
	return all
}

// setFinalizer adds the finalizer of the registry to an object if wanted, and removes it if not.
func setFinalizer(ctx context.Context, c client.Client, o client.Object, wanted bool) error {
	before := o.DeepCopyObject().(client.Object)
	change := controllerutil.RemoveFinalizer
	if wanted {
		change = controllerutil.AddFinalizer
	}
	if !change(o, v1alpha1.FinalizerRegistry) {
		return nil
	}
	return c.Patch(ctx, o, verdict.Since(before))
}
