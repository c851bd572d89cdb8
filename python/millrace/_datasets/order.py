"""Which elements come, in which order, and what is kept of them."""

from __future__ import annotations

from typing import Any, Self

from .._graph.attrs import AttrTable
from .._graph.symbol import Symbol
from .._ops.draws import seed_of
from .arguments import IntLike, add_flag, add_number
from .base import DatasetBase


class Order(DatasetBase):
    """The methods of a Dataset that leave its elements as they are."""

    def concatenate(self, dataset: Self, name: str | None = None) -> Self:
        """Put another dataset behind this one.

        Parameters
        ----------
        dataset : Dataset
            With elements of the same structure and dtypes.
        name : str, optional
            Accepted and ignored.

        Returns
        -------
        Dataset
            Of the elements of both.

        Examples
        --------
        >>> list(mr.Dataset.range(2).concatenate(mr.Dataset.range(5, 7)))
        [0, 1, 5, 6]
        """
        if not isinstance(dataset, DatasetBase):
            raise TypeError(f"concatenate takes a Dataset, not {type(dataset).__name__}")
        return self._of("concatenate", [self, dataset])

    def shuffle(
        self,
        buffer_size: IntLike,
        seed: IntLike | None = None,
        reshuffle_each_iteration: bool | None = True,
        name: str | None = None,
    ) -> Self:
        """Bring the elements into a random order, drawn from a buffer.

        Parameters
        ----------
        buffer_size : int
            How many elements the buffer holds. mr.UNKNOWN_CARDINALITY: all of them, so that
            ``ds.shuffle(ds.cardinality())`` does what it says.
        seed : int, optional
            For what is drawn; combined with that of mr.random.set_seed.
        reshuffle_each_iteration : bool, default True
            Whether each pass has an order of its own. If not, all passes have one order, which is
            the dataset's where no `seed` is given: the elements of ``ds.take(n)`` are those that
            ``ds.skip(n)`` leaves out.
        name : str, optional
            Accepted and ignored.

        Returns
        -------
        Dataset
            Of the same elements.

        Examples
        --------
        >>> sorted(mr.Dataset.range(5).shuffle(5, seed=1))
        [0, 1, 2, 3, 4]
        """
        attrs = add_number(AttrTable(), "buffer_size", buffer_size)
        seed = seed_of(seed)
        if seed is not None:
            add_number(attrs, "seed", seed)
        reshuffle = True if reshuffle_each_iteration is None else reshuffle_each_iteration
        return self._of("shuffle", [self], add_flag(attrs, "reshuffle_each_iteration", reshuffle))

    def repeat(self, count: IntLike | None = None, name: str | None = None) -> Self:
        """Repeat the dataset.

        Parameters
        ----------
        count : int, optional
            How often; for ever by default, and if it is below 0.
        name : str, optional
            Accepted and ignored.

        Returns
        -------
        Dataset
            Of the same elements, again and again.

        Examples
        --------
        >>> list(mr.Dataset.range(2).repeat(2))
        [0, 1, 0, 1]
        """
        attrs = AttrTable()
        if count is not None:
            add_number(attrs, "count", count)
        return self._of("repeat", [self], attrs)

    def take(self, count: Any, name: str | None = None) -> Self:
        """Give the first elements.

        Parameters
        ----------
        count : int
            How many; all if it is below 0.
        name : str, optional
            Accepted and ignored.

        Returns
        -------
        Dataset
            Of at most so many elements.

        Examples
        --------
        >>> list(mr.Dataset.range(10).take(3))
        [0, 1, 2]
        """
        ds = self._of("take", [self], add_number(AttrTable(), "count", count))
        return self._counting(ds, isinstance(count, Symbol) or count > 0)

    def skip(self, count: Any, name: str | None = None) -> Self:
        """Leave out the first elements.

        Parameters
        ----------
        count : int
            How many; all if it is below 0.
        name : str, optional
            Accepted and ignored.

        Returns
        -------
        Dataset
            Of the others.

        Examples
        --------
        >>> list(mr.Dataset.range(5).skip(3))
        [3, 4]
        """
        ds = self._of("skip", [self], add_number(AttrTable(), "count", count))
        return self._counting(ds, isinstance(count, Symbol) or count > 0)

    def shard(self, num_shards: Any, index: IntLike, name: str | None = None) -> Self:
        """Give every n-th element.

        Parameters
        ----------
        num_shards : int
            The distance.
        index : int
            The number of the first one, below `num_shards`.
        name : str, optional
            Accepted and ignored.

        Returns
        -------
        Dataset
            Of those elements.

        Examples
        --------
        >>> list(mr.Dataset.range(7).shard(3, 1))
        [1, 4]
        """
        attrs = add_number(add_number(AttrTable(), "num_shards", num_shards), "index", index)
        ds = self._of("shard", [self], attrs)
        return self._counting(ds, isinstance(num_shards, Symbol) or num_shards > 1)

    def unique(self, name: str | None = None) -> Self:
        """Leave out elements that came before. What was seen is kept in memory.

        Parameters
        ----------
        name : str, optional
            Accepted and ignored.

        Returns
        -------
        Dataset
            Of the first of equal elements, which are scalars of int32, int64 or string.

        Raises
        ------
        InvalidArgumentError
            The elements are something else.

        Examples
        --------
        >>> list(mr.Dataset.from_tensor_slices([3, 1, 3, 2, 1]).unique())
        [3, 1, 2]
        """
        return self._of("unique", [self])

    def prefetch(self, buffer_size: IntLike | None, name: str | None = None) -> Self:
        """Make elements ahead of need, by a thread of their own.

        Elements that take less than a millisecond are not handed over where it is found
        out that handing them over costs more than it saves.

        Parameters
        ----------
        buffer_size : int or None
            How many at most; mr.AUTOTUNE or None: as many as pay.
        name : str, optional
            Accepted and ignored.

        Returns
        -------
        Dataset
            Of the same elements.

        Examples
        --------
        >>> list(mr.Dataset.range(3).prefetch(mr.AUTOTUNE))
        [0, 1, 2]
        """
        attrs = AttrTable()
        if buffer_size is not None:
            add_number(attrs, "buffer_size", buffer_size)
        return self._of("prefetch", [self], attrs)

    def ignore_errors(
        self, log_warning: bool = False, name: str | None = None, max_errors: int | None = None
    ) -> Self:
        """Leave out the elements that cannot be made.

        Memory that runs out, and a service that cannot be reached, are no faults of an element and
        are raised as ever. NumpyIterator.ignored_errors says how many were left out.

        Parameters
        ----------
        log_warning : bool, default False
            Whether each one that is left out is a line on stderr (on a worker: in its log), with
            its error and how many there were so far.
        name : str, optional
            Accepted and ignored.
        max_errors : int, optional
            How many are left out at most, by an iterator (on workers: by a task). The error after
            that many is raised, and ends the iterator. By default any number.

        Returns
        -------
        Dataset
            Of the others.

        Raises
        ------
        ValueError
            `max_errors` is below 0.

        Examples
        --------
        >>> ds = mr.Dataset.from_tensor_slices(["1", "two", "3"]).map(mr.strings.to_number)
        >>> list(ds.ignore_errors(max_errors=1))
        [1.0, 3.0]
        """
        attrs = add_flag(AttrTable(), "log_warning", log_warning)
        if max_errors is not None:
            if not isinstance(max_errors, Symbol) and max_errors < 0:
                raise ValueError(f"max_errors is at least 0, or None: got {max_errors}")
            add_number(attrs, "max_errors", max_errors)
        return self._of("ignore_errors", [self], attrs)
