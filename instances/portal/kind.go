// SPDX-License-Identifier: Apache-2.0

package portal

import (
	"net/http"
	"slices"

	"github.com/seed-141914ff/okara/instances/api"
	"github.com/seed-141914ff/okara/instances/lifecycle"
	"github.com/seed-141914ff/okara/internal/service"
)

// Kinds are those of a cluster, whose objects people write themselves: shown beside the
// templates, and launched by nobody here.
type Kinds interface {
	Kinds() []api.Kind // by name
}

// kindsNamespace is the first part of the address of a kind, where templates have their
// namespace: read:template:apps.okara.dev/* is the right to see all.
const kindsNamespace = "apps.okara.dev"

// kinds are those that the caller may see.
func (s *server) kinds(c caller) []api.Kind {
	if s.o.Kinds == nil {
		return nil
	}
	return slices.DeleteFunc(s.o.Kinds.Kinds(), func(k api.Kind) bool { return !c.mayRead(kindsNamespace + "/" + k.Name) })
}

// kindIn is the kind that a path names, if the caller may see it.
func (s *server) kindIn(r *http.Request, c caller, _ lifecycle.View) (api.Kind, caller, error) {
	all := s.kinds(c)
	i := slices.IndexFunc(all, func(k api.Kind) bool { return k.Name == r.PathValue("name") })
	if i >= 0 {
		return all[i], c, nil
	}
	if err := c.unknown(); err != nil {
		return api.Kind{}, c, err
	}
	return api.Kind{}, c, &service.Error{Status: http.StatusNotFound, Text: "there is no such kind that you may see"}
}

func (s *server) showKind(w http.ResponseWriter, r call[api.Kind]) error {
	return service.WriteJSON(w, http.StatusOK, r.at)
}
