"""Small programs that must do the same with marks as without."""

from __future__ import annotations

SNIPPETS = {
    "generators": """
        def g(n):
            'doc'
            got = []
            for i in range(n):
                got.append((yield i))
            return got
        it = g(3); print(next(it), it.send('a'), it.send('b'))
        try: it.send('c')
        except StopIteration as e: print(e.value)
        def outer():
            result = yield from g(2)
            print(result)
            yield
        print(list(outer()))
        def closing():
            try:
                yield 1
                yield 2
            except GeneratorExit:
                print('closed'); raise
            finally:
                print('finally')
        c = closing(); next(c); c.close()
        def thrown():
            while True:
                try: yield
                except ValueError as e: print('got', e)
        t = thrown(); next(t); t.throw(ValueError('v')); t.close()
        print(g.__doc__, g.__code__.co_flags, closing.__code__.co_flags)
        print(sum(x * x for x in range(5) if x % 2), list(y for x in 'ab' for y in x * 2))
        def empty():
            return
            yield
        print(list(empty()))
        """,
    "async": """
        import asyncio
        class C:
            async def __aenter__(self): return 'entered'
            async def __aexit__(self, *a): print('left')
        async def agen():
            for i in range(3):
                await asyncio.sleep(0)
                yield i
            return
        async def main():
            '''doc'''
            async with C() as c:
                print(c)
            async for x in agen():
                if x == 1: continue
                print(x)
            else:
                print('else')
            print([x async for x in agen()], {x: await one(x) async for x in agen() if await one(x)})
            print(await asyncio.gather(one(1), one(2)))
            g = (await one(x) for x in range(2))
            print([x async for x in g])
            try:
                await asyncio.wait_for(asyncio.sleep(5), 0.001)
            except (TimeoutError, asyncio.TimeoutError): print('timeout')
        async def one(x): return x + 1
        asyncio.run(main())
        print(main.__code__.co_flags, agen.__code__.co_flags)
        """,
    "scopes": """
        x = 'global'
        def f():
            x = 'f'
            def g():
                nonlocal x
                x += '!'
                def h():
                    global x
                    x = 'set'
                    del x
                    x = 'again'
                    return locals()
                return h(), sorted(locals())
            return g(), x, sorted(locals())
        print(f(), x)
        class A:
            x = 1
            y = [x for _ in range(2)]
            z = lambda self: self.x
            def m(self, a=x): return __class__.__name__, a, x
            print(sorted(locals()))
            del x
        print(A().m(), A.y, sorted(vars(A)))
        def closure():
            fs = [lambda i=i: i for i in range(3)]
            gs = [lambda: i for i in range(3)]
            return [f() for f in fs], [g() for g in gs]
        print(closure(), closure.__code__.co_varnames, f.__code__.co_cellvars)
        print(sorted(name for name in globals() if 'outplace' in name), [n for n in dir() if 'outplace' in n])
        print((lambda: (yield))().__class__.__name__, (lambda *a, k=1, **kw: (a, k, kw))(1, k=2, z=3))
        if (n := 3) > 2: print([m := n, m + 1], n)
        print([last := i for i in range(3)], last)
        """,
    "classes": """
        import dataclasses, enum, typing, abc, functools
        class Meta(type):
            def __new__(meta, name, bases, ns, **kw):
                print(name, sorted(k for k in ns if not k.startswith('__')), kw)
                return super().__new__(meta, name, bases, ns)
        class Base(metaclass=Meta, flag=(
            1)):
            'doc'
            def __init_subclass__(cls, **kw): print('sub', cls.__name__, kw)
            def who(self): return 'base'
        class Child(Base, x=1):
            def who(self):
                return 'child of ' + super().who() + (
                    super(
                    ).who()
                )
            @property
            def p(self): return 1
            @staticmethod
            def s(): return 2
            @classmethod
            def c(cls): return cls.__name__
            @functools.cached_property
            def cp(self): return [1]
            __slots__ = ()
        print(Child().who(), Child().p, Child.s(), Child.c(), Base.__doc__, Child.who.__qualname__)
        class Magic(dict):
            def __missing__(self, key):
                if key.startswith('__'): raise KeyError(key)
                self[key] = len(self); return self[key]
        class AutoMeta(type):
            def __prepare__(name, bases, **kw): return Magic()
            def __new__(meta, name, bases, ns): return super().__new__(meta, name, bases, dict(ns))
        class Every(dict):
            def __missing__(self, key): print('asked for', key); raise KeyError(key)
        class EveryMeta(type):
            def __prepare__(name, bases, **kw): return Every()
            def __new__(meta, name, bases, ns): return super().__new__(meta, name, bases, dict(ns))
        class Auto(metaclass=AutoMeta):
            red; green
            for i in [1, 2]: blue
            purple = (
                red + 1
            )
        print([(k, v) for k, v in vars(Auto).items() if not k.startswith('__')])
        class Asked(metaclass=EveryMeta):
            a = len('a')
            b = max(
                1,
                2,
            )
            def f(self): return a
        class Colour(enum.Enum):
            RED = enum.auto(); BLUE = enum.auto()
            def nice(self): return self.name.lower()
        class Flag(enum.IntFlag):
            A = 1
            B = A << 1
        print(list(Colour), Colour.BLUE.nice(), Flag.A | Flag.B)
        @dataclasses.dataclass(order=True)
        class D:
            a: int
            b: list = dataclasses.field(default_factory=list)
            c: typing.ClassVar[int] = 3
            def __post_init__(self): self.a += 1
        print(D(1), D.__annotations__, D(1) < D(2), dataclasses.fields(D)[1].name)
        class N(typing.NamedTuple):
            x: int
            y: str = 'a'
        print(N(1), N._field_defaults)
        class __Private:
            __x = 1
            def get(self): return self.__x
        print(__Private().get(), sorted(k for k in vars(__Private) if 'x' in k))
        def outer():
            class Local: pass
            return Local.__qualname__
        print(outer())
        """,
    "control": """
        def f(x):
            for i in iter(range(x)):
                try:
                    if i == 2: continue
                    if i == 4: break
                    if i == 9: return 'never'
                    print(i)
                except ZeroDivisionError: pass
                else: print('else', i)
                finally: print('finally', i)
            else: return 'done'
            while x:
                x -= 1
                if x == 3: continue
                if x == 1: break
            else: return 'emptied'
            return 'broken', x
        print(f(3), f(6), f(0))
        def returns():
            try: return 'try'
            finally: print('finally')
        def overrides():
            try: return 'try'
            finally: return 'finally'
        def swallow():
            for _ in 'ab':
                try: 1 / 0
                finally: continue
            return 'swallowed'
        def reraise():
            try:
                try: 1 / 0
                except ZeroDivisionError as e:
                    first = e; raise
            except ArithmeticError as e: return e is first, 'e' in locals()
        print(returns(), overrides(), swallow(), reraise())
        def nothing(): pass
        def only_doc(): 'just a doc'
        def ellipsis(): ...
        async def coroutine(): 'doc'
        print(nothing(), only_doc(), only_doc.__doc__, ellipsis(), coroutine.__doc__)
        n = 0
        while (n := n + 1) < 5 and n != 3: print(n)
        else: print('no')
        for a, (b, *c) in [(1, (2, 3, 4))]: print(a, b, c)
        for x.y in [1] if (x := type('X', (), {})) else []: print(x.y)
        if n == 1: pass
        elif n == 2: pass
        elif max(n, 3) == 3: print('elif')
        else: print('else')
        with open('/dev/null') as f, open('/dev/null') as g: print(f.name == g.name)
        assert n, 'never'
        del a, b, c
        """,
    "match": """
        from dataclasses import dataclass
        @dataclass
        class P:
            x: int
            y: int
        class K: ONE = 1
        def m(v):
            match v:
                case 0 | -1 | 1+2j: return 'number'
                case K.ONE: return 'one'
                case [a, *rest] if len(rest) > 1: return a, rest
                case [a, b]: return 'pair', a, b
                case {'k': k, **more}: return k, more
                case P(x=0, y=yy): return 'origin', yy
                case P(x, y): return x, y
                case str() as s: return s
                case None | True: return v
                case (
                    float()
                ): return 'f'
                case _: return '?'
        some = [0, -1, 1+2j, 1, [1, 2, 3], (1, 2), {'k': 1, 'z': 2}, P(0, 5), P(1, 2), 's', None, 1.5, {}, b'']
        print([m(v) for v in some])
        """,
    "calls": """
        def f(*args, **kw): return args, kw
        print(f(*[1], *(2, 3), **{'a': 1}, b=(
            2
        )))
        print(f(
            1,
            *[2],
        ), f(
            x for x in [1]
        )[0][0].__class__.__name__, f(
            **dict(
                out=[1].copy(
                ),
            )
        ))
        print('a b'
              .replace(' ', '-')
              .upper(
              )
              .split('-'), (1 +
            2) * (
                3
            ) ** 2, not (
                1), -(
                    1), [1, 2][
                        0], {**{'a': 1},
                             'b': 2}, {*[1],
                                       2})
        print(f'{1 + 1:>{2 * 3}} {f(1)!r} {"nested" + "x"}', f'''
        {len(
            "abc"
        )}''', 'implicit' 'concat', rb'\\d', 0x10, 1_000, 1e3, ...)
        x = y = [0]; x[0] += 1; a, b = b, a = 1, 2; print(x, y, a, b)
        x[:] = x[::-1]; x[len(x):] = [7]; print(x)
        print(1 < 2 < 3 != 4, 1 if x else 2, x and y or None, [*x, *y])
        order = []
        def o(v): order.append(v); return v
        d = {}
        d[o('key')] = o('value')
        o('f')and f(o(1), k=o(2), *[o(3)], **{'z': o(4)})
        (o(1) +
         o(2)) * o(
             3)
        print(order)
        print(f(requires_grad=True, out=1), f(requires_grad=False), f(out=None))
        Parameter = f
        print(Parameter(1), Parameter(
            2))
        exec('z = 1; print(z, sorted(k for k in globals() if "outplace" in k))')
        print(eval('(lambda q: q + 1)(2)'))
        def defaults(a, b=o('default'), *, c=[o(5)]): return a, b, c
        print(defaults(1), defaults.__defaults__, defaults.__kwdefaults__)
        """,
    "annotations": """
        import typing
        x: int = 3
        y: 'later'
        z: typing.List[
            int
        ] = [1]
        def f(a: int, *b: 'B', c: max(1, 2) = 3, **d: print('evaluated')) -> (
            str
        ):
            v: undefined_name = 1
            return v
        class A:
            p: int
            q: 'str' = 'a'
        own = globals().get('__annotations__') or __annotate__(1)  # since Python 3.14 a function
        print(own, f.__annotations__, A.__annotations__, f(1))
        """,
    "future annotations": """
        '''Module docstring.'''
        from __future__ import annotations, division
        import typing
        x: undefined[1 +
                     2] = 3
        def f(a: no.such(thing), b: lambda: 1 = 2) -> list[undefined]: return a
        class A:
            '''doc'''
            p: Missing
        print(__doc__, __annotations__, f.__annotations__, A.__annotations__, A.__doc__)
        """,
    "doctest": """
        '''
        >>> square(3)
        9
        >>> square('a')
        Traceback (most recent call last):
        ...
        TypeError: can't multiply sequence by non-int of type 'str'
        '''
        def square(x):
            '''
            >>> square(2)
            4
            '''
            return x * x
        import doctest, types
        module = types.ModuleType('m'); module.__dict__.update(globals()); module.__doc__ = __doc__
        print(doctest.testmod(module, globs=globals()))
        """,
    "lines": """
        import sys, traceback, warnings
        def here(): return sys._getframe(1).f_lineno
        print(here(), [here(), (
            here()), here(
            )])
        def g():
            yield here()
            x = (
                yield here()
            )
        print(list(g()))
        def f(): return here(), (
            here()
        )
        print(f(), (lambda: (
            here()))())
        for i in (here(),
                  here()): print(i)
        def trace():
            seen = []
            def tracer(frame, event, arg):
                if frame.f_code.co_filename == __file__: seen.append((event, frame.f_lineno, frame.f_code.co_name))
                return tracer if frame.f_code.co_filename == __file__ else None
            def body(n):
                a = n + 1
                for i in iter([1, 2]):
                    a += i
                    if a > 100:
                        continue
                try:
                    a = a / 0
                except ZeroDivisionError:
                    a = 0
                while a < 2:
                    a += len('x')
                if a:
                    return [x for x in range(2)]
            sys.settrace(tracer)
            try: body(1)
            finally: sys.settrace(None)
            return seen
        events = trace()
        print([e for e in events if e[0] != 'line' and e[2] in ('body', '<listcomp>')])
        print([l for i, l in enumerate(e[1] for e in events) if not i or events[i - 1][1] != l])
        """,
}
