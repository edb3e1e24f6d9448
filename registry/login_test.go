// SPDX-License-Identifier: Apache-2.0

package registry_test

import (
	"net/http"
)

func (i *issuer) authorize(w http.ResponseWriter, r *http.Request) {}
func (i *issuer) token(w http.ResponseWriter, r *http.Request)     {}
