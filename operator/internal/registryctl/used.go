// SPDX-License-Identifier: Apache-2.0

package registryctl

import (
	"context"
	"sync"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/seed-141914ff/okara/internal/addr"
	"github.com/seed-141914ff/okara/internal/supply"
	"github.com/seed-141914ff/okara/operator/api/v1alpha1"
	"github.com/seed-141914ff/okara/operator/internal/fluxobj"
)

// usedVersions tells which versions are in use, which retention keeps. It reads once; if that
// fails, all count as used: a removed one does not come back.
func (r *entries) usedVersions(ctx context.Context, e *entry) func(string, addr.Version) bool {
	type known struct {
		versions map[string]supply.VersionRecord
		digests  map[string]bool
	}
	read := sync.OnceValues(func() (known, error) {
		digests, err := r.runningDigests(ctx)
		if err != nil {
			log.FromContext(ctx).Error(err, "versions in use are unknown: nothing is pruned")
			return known{}, err
		}
		if len(digests) == 0 {
			return known{}, nil
		}
		rec, err := supply.ReadEntryRecord(ctx, r.Depot, e.key)
		if err != nil {
			return known{}, err
		}
		return known{rec.Entries[e.key], digests}, nil
	})
	return func(_ string, v addr.Version) bool {
		k, err := read()
		return err != nil || k.digests[k.versions[v.EditionOf().String()].Digest]
	}
}

// runningDigests returns the digests that Instances and objects of generated kinds run.
func (r *entries) runningDigests(ctx context.Context) (map[string]bool, error) {
	digests := map[string]bool{}
	var instances v1alpha1.InstanceList
	if err := r.List(ctx, &instances); err != nil {
		return nil, err
	}
	for _, i := range instances.Items {
		if m := i.Status.Module; m != nil && m.Digest != "" {
			digests[m.Digest] = true
		}
	}
	var kinds v1alpha1.ModuleKindList
	if err := r.reader.List(ctx, &kinds); apierrors.IsForbidden(err) {
		return digests, nil // an operator limited to namespaces has no kinds
	} else if err != nil {
		return nil, err
	}
	for _, k := range kinds.Items {
		if err := r.runningObjects(ctx, k.Spec.Names.Kind, digests); err != nil {
			return nil, err
		}
	}
	return digests, nil
}

// runningObjects adds the digests that the objects of a generated kind run.
func (r *entries) runningObjects(ctx context.Context, kind string, digests map[string]bool) error {
	of := schema.GroupVersionKind{Group: v1alpha1.KindsGroup, Version: v1alpha1.KindsVersion, Kind: kind}
	err := fluxobj.EachObject(ctx, r.reader, of, func(o *unstructured.Unstructured) error {
		if digest := fluxobj.Text(o, "status", "module", "digest"); digest != "" {
			digests[digest] = true
		}
		return nil
	})
	if meta.IsNoMatchError(err) {
		return nil // the CRD does not exist, so there are no objects
	}
	return client.IgnoreNotFound(err)
}
