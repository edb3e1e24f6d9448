// SPDX-License-Identifier: Apache-2.0

package instancectl

import (
	"context"
	"testing"

	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/seed-141914ff/okara/instances/template"
	"github.com/seed-141914ff/okara/internal/must"
	"github.com/seed-141914ff/okara/operator/api/v1alpha1"
)

// registry has one module, net/vpc/aws.
type registry struct{}

func sourceAt(version string) template.Source {
	return template.Source{Module: "net/vpc/aws", Version: version, Digest: "sha256:" + version, Archive: "sha256:zip" + version, Size: 100}
}

func (registry) Resolve(context.Context, template.ModuleRef) (template.Source, template.Module, error) {
	inputs := `{"properties":{"size":{"type":"string","default":"small"},"name":{"type":"string","default":""},"key":{"type":"string","writeOnly":true,"default":""},"cidr":{"type":"string","default":""},"region":{"type":"string","default":""}}}`
	return sourceAt("1.1.0"), template.Module{Inputs: []byte(inputs), Outputs: map[string]bool{"url": false, "vpc_id": false}}, nil
}

func (registry) Versions(context.Context, template.ModuleRef, int) ([]template.Source, error) {
	return []template.Source{sourceAt("1.1.0"), sourceAt("1.0.0")}, nil
}

// Resolved runs the controller of Templates on one of them.
func Resolved(t *testing.T, c client.Client, o *v1alpha1.Template) {
	t.Helper()
	r := &resolver{Client: c, live: c, Options: Options{Settings: Settings{Namespace: o.Namespace}, Modules: registry{}}}
	must.Get(r.Reconcile(t.Context(), reconcile.Request{NamespacedName: client.ObjectKeyFromObject(o)}))(t)
	must.Succeed(t, c.Get(t.Context(), client.ObjectKeyFromObject(o), o))
}

// CatalogOf returns the catalog of a store.
func CatalogOf(s *Store) *Catalog { return s.catalog }
