// SPDX-License-Identifier: Apache-2.0

// Package fluxobj writes objects of Flux and reads what Flux says of them. Who names an
// executor imports fluxexec or fluxexec/helm; this is what these have in common.
//
// An object is made by a create, so that one which is there already is left alone unless
// it is the operator's for the same UID: a server-side apply over an object that somebody
// made before would keep what he put in it, such as the image of a runner. Later writes
// are server-side applies of field owner [Owner]. An object that is as it should be is
// not written.
package fluxobj
