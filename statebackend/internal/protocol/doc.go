// SPDX-License-Identifier: Apache-2.0

// Package protocol is the lock protocol of a workspace, without a registry or a clock. Acquirer,
// saver, releaser and forcer are state machines: each takes the reply to its last request and
// returns the next one. A store performs the requests on a registry; the explorer and the simulator
// of the tests perform them on a model of one, so that the tested code is the code that runs.
package protocol
