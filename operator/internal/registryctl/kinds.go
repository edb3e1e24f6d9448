// SPDX-License-Identifier: Apache-2.0

package registryctl

import (
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/seed-141914ff/okara/operator/api/v1alpha1"
)

func namespaceKind() schema.GroupVersionKind {
	return schema.GroupVersionKind{Version: "v1", Kind: "Namespace"}
}

// itemsOf returns the objects of a list of entries.
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
	}
	return all
}
