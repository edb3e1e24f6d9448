// SPDX-License-Identifier: Apache-2.0

package registryctl

import (
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/seed-141914ff/okara/operator/api/v1alpha1"
)

func namespaceKind() schema.GroupVersionKind {
	return schema.GroupVersionKind{Version: "v1", Kind: "Namespace"}
}

// entryKinds are the objects that can be entries, by kind.
func entryKinds() map[string]client.Object {
	return map[string]client.Object{kindModule: &v1alpha1.Module{}, kindProvider: &v1alpha1.Provider{}, kindVersion: &v1alpha1.Version{}}
}

// statusOf is the whole status of an entry.
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

// entryLists are the lists that an entry can be in.
func entryLists() []client.ObjectList {
	return []client.ObjectList{&v1alpha1.ModuleList{}, &v1alpha1.ProviderList{}, &v1alpha1.VersionList{}}
}

// itemsOf returns the objects of a list that are entries.
func itemsOf(list client.ObjectList) []client.Object {
	var all []client.Object
	switch list := list.(type) {
	case *v1alpha1.ModuleList:
		for i := range list.Items {
			all = append(all, &list.Items[i])
		}
	case *v1alpha1.ProviderList:
		for i := range list.Items {
			all = append(all, &list.Items[i])
		}
	case *v1alpha1.VersionList:
		for i := range list.Items {
			if alone(&list.Items[i]) {
				all = append(all, &list.Items[i])
			}
		}
	}
	return all
}
